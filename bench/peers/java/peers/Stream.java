package peers;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** The events of a file of little-endian int64 rows (type, id, v, ts), and the clock of the process. */
public final class Stream {
    /** An event: a public class with public fields, for which Flink uses its POJO serialiser. */
    public static final class Event {
        public int type;
        public long id;
        public long v;
        public long ts;

        @Override
        public boolean equals(Object other) {
            return other instanceof Event && ((Event) other).ts == ts; // times are unique in DS1
        }

        @Override
        public int hashCode() {
            return Long.hashCode(ts);
        }
    }

    /** CPU time (user and system, of all threads, the compiler and the collector included) and wall time. */
    public static final class Clock {
        private long cpu;
        private long wall;

        public void start() {
            cpu = cpuNow();
            wall = System.nanoTime();
        }

        /** Prints what Python reads: matches, CPU seconds, wall seconds. */
        public void stop(long matches) {
            double seconds = (System.nanoTime() - wall) / 1e9;
            System.out.printf(java.util.Locale.ROOT, "run %d %.6f %.6f%n", matches, (cpuNow() - cpu) / 1e9, seconds);
        }

        private static long cpuNow() {
            return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                    .getProcessCpuTime();
        }
    }

    private Stream() {}

    public static Event[] read(String file) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(file))).order(ByteOrder.LITTLE_ENDIAN);
        Event[] events = new Event[bytes.remaining() / 32];
        for (int i = 0; i < events.length; i++) {
            Event event = new Event();
            event.type = (int) bytes.getLong();
            event.id = bytes.getLong();
            event.v = bytes.getLong();
            event.ts = bytes.getLong();
            events[i] = event;
        }
        return events;
    }
}
