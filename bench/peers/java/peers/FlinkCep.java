package peers;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
import peers.Stream.Event;

/** The limit queries with Flink's CEP API: FlinkCep EVENTS QUERY RUNS. */
public final class FlinkCep {
    private FlinkCep() {}

    public static void main(String[] args) throws Exception {
        Flink.run(args, FlinkCep::execute);
    }

    private static void execute(String query) throws Exception {
        StreamExecutionEnvironment env = Flink.environment();
        DataStream<Event> stream = Flink.source(env, query);
        DataStream<Event> keyed = DataStreamUtils.reinterpretAsKeyedStream(stream, e -> e.id, Types.LONG);
        CEP.pattern(keyed, pattern(query)).process(new Count(), Types.LONG).sinkTo(new DiscardingSink<>());
        env.execute();
    }

    /** Counts the matches, which Flink passes as maps of lists of events. */
    private static final class Count extends PatternProcessFunction<Event, Long> {
        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> out) {
            Flink.matches++;
        }
    }

    /** Passes microseconds to Flink as milliseconds. Its windows are strict, so one unit more makes them inclusive. */
    private static Pattern<Event, ?> pattern(String query) {
        switch (query) {
            case "Q1":
            case "Q1s":
                return Pattern.<Event>begin("a").where(type(0))
                        .followedByAny("b").where(type(1))
                        .followedByAny("c").where(new Sum())
                        .within(Duration.ofMillis(query.equals("Q1") ? 8001 : 1001));
            case "QS":
                return Pattern.<Event>begin("a").where(SimpleCondition.of(e -> e.type == 0 && e.v == 10))
                        .followedByAny("b").where(SimpleCondition.of(e -> e.type == 1 && e.v == 10))
                        .followedByAny("c").where(SimpleCondition.of(e -> e.type == 2 && e.v == 10))
                        .within(Duration.ofMillis(1001));
            case "QK":
                return Pattern.<Event>begin("a").where(type(0))
                        .followedByAny("b").where(new SameV()).oneOrMore().allowCombinations()
                        .followedByAny("c").where(type(2))
                        .within(Duration.ofMillis(1001));
            default:
                throw new IllegalArgumentException(query);
        }
    }

    private static SimpleCondition<Event> type(int type) {
        return SimpleCondition.of(e -> e.type == type);
    }

    /** c.V = a.V + b.V. */
    private static final class Sum extends IterativeCondition<Event> {
        @Override
        public boolean filter(Event c, Context<Event> context) throws Exception {
            if (c.type != 2) {
                return false;
            }
            long a = context.getEventsForPattern("a").iterator().next().v;
            return a < c.v && a + context.getEventsForPattern("b").iterator().next().v == c.v;
        }
    }

    /** b[i].V = a.V. */
    private static final class SameV extends IterativeCondition<Event> {
        @Override
        public boolean filter(Event b, Context<Event> context) throws Exception {
            return b.type == 1 && context.getEventsForPattern("a").iterator().next().v == b.v;
        }
    }
}
