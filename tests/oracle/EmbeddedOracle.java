import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.StreamsAssignmentProtocolVersions;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/**
 * The protocols embedded in group metadata, written by the classes of Kafka's own clients, as JSON lines: what was
 * written (kind, label, bytes) and what the same classes read back from those bytes.
 */
public class EmbeddedOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> TOPICS = List.of("", "a", "orders", "团队-😀", "x".repeat(249));
    private static final List<TopicPartition> PARTITIONS = List.of(new TopicPartition("a", 0),
        new TopicPartition("a", 7), new TopicPartition("团队-😀", Integer.MAX_VALUE));
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        subscriptions();
        assignments();
        stickyUserData();
        connectEager();
        for (boolean sessioned : new boolean[] {false, true}) {
            connectIncremental(sessioned);
        }
        for (int version = 1; version <= StreamsAssignmentProtocolVersions.LATEST_SUPPORTED_VERSION; version++) {
            streams(version);
        }
        OUT.flush();
    }

    // --- the consumer protocol -------------------------------------------------------------------------------------

    private static void subscriptions() throws Exception {
        for (short version = 0; version <= 3; version++) {
            for (List<String> topics : List.of(List.<String>of(), List.of("a"), TOPICS)) {
                for (ByteBuffer userData : new ByteBuffer[] {null, bytes(0), bytes(128), bytes(16384)}) {
                    Subscription written = new Subscription(topics, userData, topics.isEmpty() ? List.of() : PARTITIONS,
                        version * 1000 - 1, version == 3 && userData != null ? Optional.of("räck") : Optional.empty());
                    subscription("v" + version, ConsumerProtocol.serializeSubscription(written, version));
                }
            }
        }
        ByteBuffer future = ConsumerProtocol.serializeSubscription(new Subscription(TOPICS, bytes(3), PARTITIONS, 9,
            Optional.of("r")), (short) 3);
        ByteBuffer longer = ByteBuffer.allocate(future.remaining() + 5).put(future.duplicate()).put(bytes(5)).flip();
        subscription("v4 with fields of its own", longer.putShort(0, (short) 4));
        subscription("v32767 with the fields of v3", future.putShort(0, (short) 32767));
    }

    private static void subscription(String label, ByteBuffer written) throws Exception {
        short version = ConsumerProtocol.deserializeVersion(written.duplicate());
        var read = ConsumerProtocol.deserializeConsumerProtocolSubscription(written.duplicate());
        print("subscription", label, written, Map.of("version", version, "data",
            ConsumerProtocolSubscriptionJsonConverter.write(read, (short) Math.min(version, 3))));
    }

    private static void assignments() throws Exception {
        for (short version = 0; version <= 3; version++) {
            for (ByteBuffer userData : new ByteBuffer[] {null, bytes(0), bytes(16384)}) {
                for (List<TopicPartition> partitions : List.of(List.<TopicPartition>of(), PARTITIONS)) {
                    ByteBuffer written =
                        ConsumerProtocol.serializeAssignment(new Assignment(partitions, userData), version);
                    var read = ConsumerProtocol.deserializeConsumerProtocolAssignment(written.duplicate());
                    print("assignment", "v" + version, written, Map.of("version", version, "data",
                        ConsumerProtocolAssignmentJsonConverter.write(read, version)));
                }
            }
        }
    }

    @SuppressWarnings("removal") // the only way to tell an assignor its generation
    private static void stickyUserData() throws Exception {
        for (int generation : new int[] {-1, 0, 1, Integer.MAX_VALUE}) {
            var member = new ConsumerGroupMetadata("g", generation, "m", Optional.empty());
            for (List<TopicPartition> owned : List.of(List.<TopicPartition>of(), PARTITIONS)) {
                StickyAssignor sticky = new StickyAssignor();
                sticky.onAssignment(new Assignment(owned), member);
                userData("sticky", sticky, sticky.subscriptionUserData(Set.of()));
                CooperativeStickyAssignor cooperative = new CooperativeStickyAssignor();
                cooperative.onAssignment(new Assignment(owned), member);
                userData("cooperative_sticky", cooperative, cooperative.subscriptionUserData(Set.of()));
            }
        }
        StickyAssignor old = new StickyAssignor();
        old.onAssignment(new Assignment(PARTITIONS), new ConsumerGroupMetadata("g", 5, "m", Optional.empty()));
        ByteBuffer written = old.subscriptionUserData(Set.of());
        userData("sticky", old, written.limit(written.limit() - 4));
    }

    private static void userData(String kind, ConsumerPartitionAssignor assignor, ByteBuffer written) throws Exception {
        Method reader = assignor.getClass().getDeclaredMethod("memberData", Subscription.class);
        reader.setAccessible(true);
        var read = (AbstractStickyAssignor.MemberData) reader.invoke(assignor,
            new Subscription(List.of(), written.duplicate()));
        print(kind, read.generation.map(n -> "generation " + n).orElse("v0"), written, Map.of(
            "generation", read.generation.orElse(-1), "partitions", pairs(read.partitions)));
    }

    // --- Kafka Connect ---------------------------------------------------------------------------------------------

    private static final List<String> CONNECTORS = List.of("sink", "源");
    private static final List<ConnectorTaskId> TASKS =
        List.of(new ConnectorTaskId("sink", 0), new ConnectorTaskId("sink", 3), new ConnectorTaskId("other", 1));

    private static void connectEager() throws Exception {
        for (long offset : new long[] {-1, 0, Long.MAX_VALUE}) {
            ByteBuffer written =
                ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState("http://wörker:8083/", offset));
            var read = ConnectProtocol.deserializeMetadata(written.duplicate());
            print("connect_metadata", "v0", written, Map.of("version", 0, "url", read.url(), "offset", read.offset()));
            var assignment = new ConnectProtocol.Assignment((short) (offset < 0 ? 1 : 0), "leader-1",
                "http://l:8083/", offset, offset == 0 ? List.of() : CONNECTORS, offset == 0 ? List.of() : TASKS);
            connectAssignment(0, ConnectProtocol.serializeAssignment(assignment));
        }
    }

    private static void connectIncremental(boolean sessioned) throws Exception {
        short version = (short) (sessioned ? 2 : 1);
        for (int delay : new int[] {0, 300_000, Integer.MAX_VALUE}) {
            for (boolean busy : new boolean[] {false, true}) {
                ExtendedAssignment assignment = new ExtendedAssignment(version, (short) 0, "leader-1",
                    "http://l:8083/", 42L, busy ? CONNECTORS : List.of(), busy ? TASKS : List.of(),
                    busy ? List.of("gone") : List.of(), busy ? List.of(new ConnectorTaskId("gone", 9)) : List.of(), delay);
                connectAssignment(version, IncrementalCooperativeConnectProtocol.serializeAssignment(assignment, sessioned));
                for (ExtendedAssignment allocation : new ExtendedAssignment[] {null, assignment}) {
                    ByteBuffer written = IncrementalCooperativeConnectProtocol.serializeMetadata(
                        new ExtendedWorkerState("http://w:8083/", delay - 1L, allocation), sessioned);
                    var read = IncrementalCooperativeConnectProtocol.deserializeMetadata(written.duplicate());
                    Map<String, Object> values = new LinkedHashMap<>(
                        Map.of("version", version, "url", read.url(), "offset", read.offset()));
                    values.put("allocation", allocation == null ? null : connectValues(version, read.assignment()));
                    print("connect_metadata", "v" + version, written, values);
                }
            }
        }
    }

    private static void connectAssignment(int version, ByteBuffer written) throws Exception {
        print("connect_assignment", "v" + version, written, connectValues(version, version == 0
            ? ConnectProtocol.deserializeAssignment(written.duplicate())
            : IncrementalCooperativeConnectProtocol.deserializeAssignment(written.duplicate())));
    }

    private static Map<String, Object> connectValues(int version, ConnectProtocol.Assignment read) {
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("version", version);
        values.put("error", read.error());
        values.put("leader", read.leader());
        values.put("leader_url", read.leaderUrl());
        values.put("offset", read.offset());
        values.put("connectors", read.connectors());
        values.put("tasks", tasks(read.tasks()));
        if (read instanceof ExtendedAssignment extended) {
            values.put("revoked_connectors", extended.revokedConnectors());
            values.put("revoked_tasks", tasks(extended.revokedTasks()));
            values.put("delay", extended.delay());
        }
        return values;
    }

    private static List<List<Object>> tasks(Collection<ConnectorTaskId> ids) {
        return ids.stream().map(id -> List.<Object>of(id.connector(), id.task())).toList();
    }

    // --- Kafka Streams ---------------------------------------------------------------------------------------------

    // Streams writes Java's modified UTF-8 here: the same as UTF-8 as far as topic names and host names go.
    private static final List<TopicPartition> BASIC_PARTITIONS =
        List.of(new TopicPartition("a", 0), new TopicPartition("团队", Integer.MAX_VALUE));
    private static final UUID PROCESS = new UUID(0x0123456789abcdefL, -2L);

    private static void streams(int version) throws Exception {
        int latest = StreamsAssignmentProtocolVersions.LATEST_SUPPORTED_VERSION;
        Map<TaskId, Long> sums = new TreeMap<>(Map.of(new TaskId(0, 0), -2L, new TaskId(0, 1), 5_000_000_000L,
            new TaskId(3, 7), 12L));
        for (String endPoint : new String[] {null, "host:80", "wört:65535"}) {
            for (Map<TaskId, Long> tasks : List.of(Map.<TaskId, Long>of(), sums)) {
                for (int error : new int[] {0, 4}) {
                    SubscriptionInfo info = new SubscriptionInfo(version, latest, new ProcessId(PROCESS), endPoint,
                        tasks, (byte) 9, error, Map.of("zone", "eu-1ü"));
                    streamsSubscription(info.encode());
                    streamsAssignment(version, latest, endPoint, tasks, error);
                }
            }
        }
    }

    private static void streamsSubscription(ByteBuffer written) throws Exception {
        SubscriptionInfo read = SubscriptionInfo.decode(written.duplicate());
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("version", read.version());
        values.put("latest_supported_version", read.latestSupportedVersion());
        values.put("process_id", read.processId().id().toString());
        values.put("user_end_point", read.userEndPoint());
        values.put("error_code", read.errorCode());
        values.put("client_tags", read.clientTags());
        print("streams_subscription", "v" + read.version(), written, values);
    }

    private static void streamsAssignment(int version, int latest, String endPoint, Map<TaskId, Long> tasks, int error)
            throws Exception {
        Map<HostInfo, Set<TopicPartition>> hosts = endPoint == null ? Map.of()
            : Map.of(new HostInfo("hôst", 80), new LinkedHashSet<>(BASIC_PARTITIONS));
        Map<TaskId, Set<TopicPartition>> standby = new TreeMap<>();
        tasks.keySet().forEach(task -> standby.put(task, Set.of(BASIC_PARTITIONS.get(0))));
        AssignmentInfo info = new AssignmentInfo(version, latest, new ArrayList<>(tasks.keySet()), standby, hosts,
            Map.of(), error);
        for (long next : version >= 7 ? new long[] {0, 1_700_000_600_000L, Long.MAX_VALUE} : new long[] {Long.MAX_VALUE}) {
            if (next != Long.MAX_VALUE) {
                info.setNextRebalanceTime(next);
            }
            ByteBuffer written = info.encode();
            AssignmentInfo read = AssignmentInfo.decode(written.duplicate());
            print("streams_assignment", "v" + version, written, Map.of("version", read.version(),
                "commonly_supported_version", read.commonlySupportedVersion(), "error_code", read.errCode(),
                "next_rebalance_ms", read.nextRebalanceMs()));
        }
    }

    // --- output ----------------------------------------------------------------------------------------------------

    private static List<List<Object>> pairs(List<TopicPartition> partitions) {
        return partitions.stream().map(p -> List.<Object>of(p.topic(), p.partition())).toList();
    }

    private static ByteBuffer bytes(int size) {
        byte[] bytes = new byte[size];
        Arrays.fill(bytes, (byte) 0xa5);
        return ByteBuffer.wrap(bytes);
    }

    private static void print(String kind, String label, ByteBuffer written, Object read) throws Exception {
        byte[] bytes = new byte[written.remaining()];
        written.duplicate().get(bytes);
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("kind", kind);
        line.put("label", label);
        line.put("bytes", Base64.getEncoder().encodeToString(bytes));
        line.put("kafka", read instanceof Map<?, ?> map ? new TreeMap<>(map) : read);
        OUT.println(JSON.writeValueAsString(line));
    }
}
