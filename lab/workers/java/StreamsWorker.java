import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A worker on Kafka Streams: classic groups, and KIP-1071 with `--protocol streams`. Its one thread reads the
 * topics and keeps nothing, but with `--mode stateful` every record; then tasks warm up elsewhere before they
 * move. `stall` holds the thread up in the middle of a record. `poison` makes the next record kill its thread;
 * Streams puts another one in its place, which has the next number, and the old one's member never leaves.
 */
public final class StreamsWorker extends Life {
    private static final String STORE = "seen";

    private final AtomicReference<Double> stall = new AtomicReference<>(0.0);
    private final AtomicBoolean poison = new AtomicBoolean();
    private final KafkaStreams streams;

    private StreamsWorker(String[] arguments) throws Exception {
        super(arguments);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> records = builder.stream(Arrays.asList(flag("topics", "").split(",")));
        if (flag("mode", "").equals("stateful")) {
            builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.inMemoryKeyValueStore(STORE), Serdes.Long(), Serdes.ByteArray()));
            records.process(Keeper::new, STORE);
        } else {
            records.foreach((key, value) -> process());
        }
        this.streams = new KafkaStreams(builder.build(), properties());
    }

    public static void main(String[] arguments) throws Exception {
        live(arguments, StreamsWorker::new);
    }

    private Properties properties() throws Exception {
        Properties all = common();
        all.put("application.id", all.remove("group.id"));
        all.remove("key.deserializer");
        all.remove("value.deserializer");
        all.put("default.key.serde", Serdes.ByteArraySerde.class);
        all.put("default.value.serde", Serdes.ByteArraySerde.class);
        all.put("state.dir", Files.createTempDirectory(Path.of(""), "streams-").toAbsolutePath().toString());
        all.put("commit.interval.ms", flag("commit-ms", "1000"));
        all.put("num.stream.threads", "1");
        all.put("max.poll.interval.ms", flag("poll-ms", "8000"));
        all.put("consumer.auto.offset.reset", "earliest");
        if (flag("mode", "").equals("stateful")) {
            // Sixty seconds are the least that Streams allows.
            all.put("probing.rebalance.interval.ms", "60000");
            all.put("acceptable.recovery.lag", "20");
        }
        if (flag("protocol", "classic").equals("streams")) {
            all.put("group.protocol", "streams");
            return all;
        }
        all.put("session.timeout.ms", flag("session-ms", "6000"));
        all.put("heartbeat.interval.ms", flag("heartbeat-ms", "1000"));
        if (!flag("instance-id", "").isEmpty()) {
            all.put("group.instance.id", flag("instance-id", ""));
        }
        return all;
    }

    private void process() {
        if (poison.getAndSet(false)) {
            throw new IllegalStateException("a record that cannot be processed");
        }
        double seconds = stall.getAndSet(0.0);
        if (seconds > 0) {
            tellStall(seconds);
            try {
                pause(seconds);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Keeps every record under its offset. */
    private static final class Keeper implements Processor<byte[], byte[], Void, Void> {
        private KeyValueStore<Long, byte[]> store;
        private ProcessorContext<Void, Void> context;

        @Override
        public void init(ProcessorContext<Void, Void> given) {
            context = given;
            store = given.getStateStore(STORE);
        }

        @Override
        public void process(Record<byte[], byte[]> one) {
            context.recordMetadata().ifPresent(place -> store.put(place.offset(), one.value()));
        }
    }

    @Override
    void begin() {
        streams.setStateListener((now, before) -> tell("state", "state", now.name(), "member", member()));
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.start();
    }

    @Override
    void turn() throws InterruptedException {
        pause(0.2);
    }

    @Override
    void stall(double seconds) {
        stall.set(seconds);
    }

    @Override
    boolean obey(String[] command) {
        poison.set(command[0].equals("poison"));
        return poison.get();
    }

    @Override
    String member() {
        return "";
    }

    @Override
    void end() {
        streams.close(Duration.ofSeconds(10));
    }
}
