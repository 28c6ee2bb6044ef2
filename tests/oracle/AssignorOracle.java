import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's own assignors, of the clients and of the server: one JSON object a line in ({assignor, counts, racks,
 * members}), the assignment of each out ({member: [[topic, partition], ...]}).
 */
public class AssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int GENERATION = 7;

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode given = JSON.readTree(line);
            boolean server = given.get("assignor").asText().startsWith("server-");
            out.println(JSON.writeValueAsString(server ? byServer(given) : byClient(given)));
        }
        out.flush();
    }

    // --- the clients' ----------------------------------------------------------------------------------------------

    private static Map<String, List<Object>> byClient(JsonNode given) {
        AbstractPartitionAssignor assignor = switch (given.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : given.get("members")) {
            Subscription subscription = subscription(assignor, member);
            subscription.setGroupInstanceId(text(member.get("instance")));
            subscriptions.put(member.get("id").asText(), subscription);
        }
        Map<String, List<Object>> found = new TreeMap<>();
        assignor.assignPartitions(partitions(given), subscriptions).forEach((member, places) ->
            found.put(member, new ArrayList<>(places.stream().map(p -> List.of(p.topic(), p.partition())).toList())));
        return found;
    }

    private static Subscription subscription(AbstractPartitionAssignor assignor, JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(place -> owned.add(new TopicPartition(place.get(0).asText(), place.get(1).asInt())));
        Optional<String> rack = text(member.get("rack"));
        if (assignor instanceof StickyAssignor) {
            StickyAssignor own = new StickyAssignor();
            own.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", GENERATION, "", Optional.empty()));
            return new Subscription(topics, own.subscriptionUserData(Set.copyOf(topics)), List.of(), GENERATION, rack);
        }
        return new Subscription(topics, null, owned, GENERATION, rack);
    }

    private static Map<String, List<PartitionInfo>> partitions(JsonNode given) {
        Map<String, List<PartitionInfo>> found = new HashMap<>();
        // Like the consumer's coordinator: only the topics that somebody subscribes to.
        Set<String> subscribed = new HashSet<>();
        given.get("members").forEach(member -> member.get("topics").forEach(topic -> subscribed.add(topic.asText())));
        given.get("counts").fields().forEachRemaining(entry -> {
            if (!subscribed.contains(entry.getKey())) {
                return;
            }
            List<PartitionInfo> infos = new ArrayList<>();
            for (int partition = 0; partition < entry.getValue().asInt(); partition++) {
                Node[] replicas = replicas(given.get("racks").path(entry.getKey()).path(partition));
                infos.add(new PartitionInfo(entry.getKey(), partition, Node.noNode(), replicas, replicas));
            }
            found.put(entry.getKey(), infos);
        });
        return found;
    }

    private static Node[] replicas(JsonNode racks) {
        List<Node> nodes = new ArrayList<>();
        racks.forEach(rack -> nodes.add(new Node(nodes.size(), "host", 9092, rack.asText())));
        return nodes.toArray(new Node[0]);
    }

    // --- the server's ----------------------------------------------------------------------------------------------

    private static Map<String, List<Object>> byServer(JsonNode given) {
        Map<String, Uuid> ids = new LinkedHashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        given.get("counts").fields().forEachRemaining(entry -> {
            Uuid id = new Uuid(1, ids.size() + 1);
            ids.put(entry.getKey(), id);
            names.put(id, entry.getKey());
            counts.put(id, entry.getValue().asInt());
        });
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode member : given.get("members")) {
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get("topics").forEach(topic -> Optional.ofNullable(ids.get(topic.asText())).ifPresent(topics::add));
            subscriptions.add(topics);
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            for (JsonNode place : member.get("owned")) {
                Uuid id = ids.get(place.get(0).asText());
                owned.computeIfAbsent(id, key -> new HashSet<>()).add(place.get(1).asInt());
                inverted.computeIfAbsent(id, key -> new HashMap<>()).put(place.get(1).asInt(), member.get("id").asText());
            }
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(text(member.get("rack")),
                text(member.get("instance")), topics,
                new org.apache.kafka.coordinator.group.modern.Assignment(Collections.unmodifiableMap(owned))));
        }
        SubscriptionType type = subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        ConsumerGroupPartitionAssignor assignor = given.get("assignor").asText().equals("server-uniform")
            ? new UniformAssignor() : new org.apache.kafka.coordinator.group.assignor.RangeAssignor();
        Map<String, List<Object>> found = new TreeMap<>();
        assignor.assign(new GroupSpecImpl(members, type, inverted), describer(counts)).members().forEach((member, one) -> {
            List<Object> places = found.computeIfAbsent(member, key -> new ArrayList<>());
            one.partitions().forEach((id, numbers) -> numbers.forEach(n -> places.add(List.of(names.get(id), n))));
        });
        return found;
    }

    private static SubscribedTopicDescriber describer(Map<Uuid, Integer> counts) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
    }

    private static Optional<String> text(JsonNode node) {
        return node == null || node.isNull() ? Optional.empty() : Optional.of(node.asText());
    }
}
