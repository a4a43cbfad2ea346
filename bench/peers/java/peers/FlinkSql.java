package peers;

import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/** The limit queries with Flink's MATCH_RECOGNIZE: FlinkSql EVENTS QUERY RUNS. */
public final class FlinkSql {
    private FlinkSql() {}

    public static void main(String[] args) throws Exception {
        Flink.run(args, FlinkSql::execute);
    }

    private static void execute(String query) throws Exception {
        StreamExecutionEnvironment env = Flink.environment();
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        Schema schema = Schema.newBuilder()
                .column("type", "INT")
                .column("id", "BIGINT")
                .column("v", "BIGINT")
                .column("ts", "BIGINT")
                .columnByMetadata("rowtime", "TIMESTAMP_LTZ(3)")
                .watermark("rowtime", "SOURCE_WATERMARK()")
                .build();
        tables.createTemporaryView("events", Flink.source(env, query), schema);
        DataStream<Row> found = tables.toDataStream(tables.sqlQuery(sql(query)));
        found.map(row -> {
            Flink.matches++;
            return row;
        }).returns(found.getType()).sinkTo(new DiscardingSink<>());
        env.execute();
    }

    /**
     * Returns every A with its first match. X and Y match the events in between, because the rows of a match are
     * contiguous. Microseconds are passed to Flink as milliseconds. Its windows are strict, so one unit more makes them
     * inclusive.
     */
    private static String sql(String query) {
        String b = "B.type = 1" + (query.equals("QK") ? " AND B.v = A.v" : "");
        String c = "C.type = 2" + (query.startsWith("Q1") ? " AND C.v = A.v + B.v" : "");
        return "SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY id ORDER BY rowtime "
                + "MEASURES A.ts AS a, B.ts AS b, C.ts AS c ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW "
                + "PATTERN (A X*? B Y*? C) WITHIN INTERVAL '" + (query.equals("Q1") ? 8 : 1) + ".001' SECOND "
                + "DEFINE A AS A.type = 0, B AS " + b + ", C AS " + c + ")";
    }
}
