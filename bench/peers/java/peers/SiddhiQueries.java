package peers;

import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;

/** The limit queries with Siddhi: SiddhiQueries EVENTS RUNS APP, with the queries in APP. */
public final class SiddhiQueries {
    private static long matches;

    private SiddhiQueries() {}

    public static void main(String[] args) throws Exception {
        Stream.Event[] events = Stream.read(args[0]);
        Event[] given = new Event[events.length];
        for (int i = 0; i < given.length; i++) {
            given[i] = new Event(events[i].ts, new Object[] {events[i].id, events[i].v, events[i].ts});
        }
        for (int run = 0; run < Integer.parseInt(args[1]); run++) {
            execute(events, given, args[2]);
            System.gc();
        }
        System.exit(0);
    }

    private static void execute(Stream.Event[] events, Event[] given, String app) throws Exception {
        matches = 0;
        SiddhiManager manager = new SiddhiManager();
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(app);
        runtime.addCallback("Matches", new StreamCallback() {
            @Override
            public void receive(Event[] found) {
                matches += found.length;
            }
        });
        runtime.start();
        InputHandler[] inputs = new InputHandler[4];
        for (int type = 0; type < inputs.length; type++) {
            inputs[type] = runtime.getInputHandler(String.valueOf("ABCD".charAt(type)));
        }
        Stream.Clock clock = new Stream.Clock();
        clock.start();
        for (int i = 0; i < given.length; i++) {
            inputs[events[i].type].send(given[i]);
        }
        clock.stop(matches);
        runtime.shutdown();
        manager.shutdown();
    }
}
