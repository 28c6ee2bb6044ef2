package main

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var franzBalancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// franzClient is a franz-go client. A deaf one blocks rebalances from a poll to the next.
type franzClient struct {
	flags  *flags
	client *kgo.Client
	topics []string

	changing sync.Mutex
	last     string
}

func newFranz(flags *flags) (client, error) {
	found := &franzClient{flags: flags, topics: flags.list("topics")}
	made, err := kgo.NewClient(found.options()...)
	found.client = made
	return found, err
}

func (c *franzClient) options() []kgo.Opt {
	flags := c.flags
	options := []kgo.Opt{
		kgo.Dialer((&net.Dialer{LocalAddr: source(), Timeout: 10 * time.Second}).DialContext),
		kgo.SeedBrokers(flags.list("bootstrap")...),
		kgo.ConsumerGroup(flags.text("group")),
		kgo.ConsumeTopics(c.topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(flags.ms("session-ms")),
		kgo.HeartbeatInterval(flags.ms("heartbeat-ms")),
		kgo.RebalanceTimeout(flags.ms("poll-ms")),
		kgo.Balancers(franzBalancers[flags.text("assignor")]),
		kgo.AutoCommitInterval(flags.ms("commit-ms")),
		kgo.MetadataMaxAge(flags.ms("metadata-ms")),
		kgo.OnPartitionsAssigned(c.telling("assigned")),
		kgo.OnPartitionsRevoked(c.telling("revoked")),
		kgo.OnPartitionsLost(c.telling("lost")),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	}
	if wait := flags.ms("fetch-ms"); wait > 0 {
		options = append(options, kgo.FetchMaxWait(wait))
	}
	if flags.text("client-id") != "" {
		options = append(options, kgo.ClientID(flags.text("client-id")))
	}
	if flags.text("instance-id") != "" {
		options = append(options, kgo.InstanceID(flags.text("instance-id")))
	}
	if !flags.commits("auto") {
		options = append(options, kgo.DisableAutoCommit())
	}
	if flags.deaf() {
		options = append(options, kgo.BlockRebalanceOnPoll())
	}
	return options
}

func (c *franzClient) telling(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, client *kgo.Client, parts map[string][]int32) {
		member, _ := client.GroupMetadata()
		c.changing.Lock()
		c.last = member
		c.changing.Unlock()
		tellParts(event, c.flags.text("group"), member, parts)
	}
}

func (c *franzClient) poll(wait time.Duration, work func()) int {
	if c.flags.deaf() {
		c.client.AllowRebalance()
	}
	limited, done := context.WithTimeout(context.Background(), wait)
	defer done()
	most := 500
	if c.flags.commits("record") {
		most = 1
	}
	count := c.client.PollRecords(limited, most).NumRecords()
	if count > 0 {
		work()
	}
	return count
}

func (c *franzClient) busy() {
	for c.flags.deaf() && c.poll(c.flags.ms("wait-ms"), func() {}) == 0 && !isClosing() {
		continue
	}
}

func (c *franzClient) commit() {
	limited, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	tellRefused(c.member(), c.client.CommitUncommittedOffsets(limited))
}

func (c *franzClient) obey(command []string) bool {
	switch {
	case command[0] == "rejoin":
		c.client.ForceRebalance()
	case command[0] == "subscribe" && len(command) == 2:
		c.client.PurgeTopicsFromConsuming(c.topics...)
		c.topics = (&flags{map[string]string{"topics": command[1]}}).list("topics")
		c.client.AddConsumeTopics(c.topics...)
	case command[0] == "unsubscribe":
		c.client.LeaveGroup()
	default:
		return false
	}
	return true
}

func (c *franzClient) member() string {
	if member, _ := c.client.GroupMetadata(); member != "" {
		return member
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	return c.last
}

func (c *franzClient) close() {
	c.client.CloseAllowingRebalance()
}
