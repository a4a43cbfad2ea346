package peers;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import peers.Stream.Event;

/** Shared code of the Flink programs: runs, the source with the events in memory, and the number of matches. */
final class Flink {
    /** Number of matches. One task in this process counts them, so a plain field suffices. */
    static long matches;

    private static final Stream.Clock CLOCK = new Stream.Clock();
    private static Event[] events;

    /** Runs one job to its end. */
    interface Job {
        void execute(String query) throws Exception;
    }

    private Flink() {}

    /** Arguments: EVENTS QUERY RUNS. The clock runs from the first event of the source to the end of the job. */
    static void run(String[] args, Job job) throws Exception {
        events = Stream.read(args[0]);
        for (int run = 0; run < Integer.parseInt(args[2]); run++) {
            matches = 0;
            job.execute(args[1]);
            CLOCK.stop(matches);
            System.gc();
        }
        System.exit(0);
    }

    static StreamExecutionEnvironment environment() {
        Configuration options = new Configuration();
        options.setString("pipeline.object-reuse", "true");
        options.setString("pipeline.auto-watermark-interval", "5 ms"); // keeps the operator's queue short
        return StreamExecutionEnvironment.createLocalEnvironment(1, options);
    }

    /** The events of the query, in event time. */
    static DataStream<Event> source(StreamExecutionEnvironment env, String query) {
        WatermarkStrategy<Event> ascending =
                WatermarkStrategy.<Event>forMonotonousTimestamps().withTimestampAssigner((e, time) -> e.ts);
        TypeInformation<Event> type = TypeInformation.of(Event.class);
        DataStream<Event> all =
                env.fromSource(new DataGeneratorSource<>(Flink::event, events.length, type), ascending, "DS1");
        return query.equals("QS") ? all.filter(e -> e.type != 3 && e.v == 10) : all.filter(e -> e.type != 3);
    }

    private static Event event(long index) {
        if (index == 0) {
            CLOCK.start();
        }
        return events[(int) index];
    }
}
