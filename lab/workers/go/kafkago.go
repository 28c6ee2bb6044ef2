package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

var kafkaGoBalancers = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

// The reader tells nobody its member id, but for its log.
var (
	kafkaGoJoined   = regexp.MustCompile(`^Joined group .* as member (\S+) in generation \d+`)
	kafkaGoAssigned = regexp.MustCompile(`^initializing kafka reader for partition (\d+) of (\S+) starting at`)
)

// kafkaGoClient is a kafka-go Reader. It joins and heartbeats by itself, whatever its user does.
type kafkaGoClient struct {
	flags  *flags
	reader *kafka.Reader
	read   []kafka.Message

	changing sync.Mutex
	id       string
}

func newKafkaGo(flags *flags) (client, error) {
	found := &kafkaGoClient{flags: flags}
	errors := log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds|log.LUTC)
	dialer := &kafka.Dialer{
		ClientID: flags.text("client-id"), LocalAddr: source(), Timeout: 10 * time.Second,
	}
	config := kafka.ReaderConfig{
		Brokers:                flags.list("bootstrap"),
		GroupID:                flags.text("group"),
		GroupTopics:            flags.list("topics"),
		Dialer:                 dialer,
		GroupBalancers:         []kafka.GroupBalancer{kafkaGoBalancers[flags.text("assignor")]},
		HeartbeatInterval:      flags.ms("heartbeat-ms"),
		SessionTimeout:         flags.ms("session-ms"),
		RebalanceTimeout:       flags.ms("poll-ms"),
		StartOffset:            kafka.FirstOffset,
		WatchPartitionChanges:  true,
		MaxWait:                500 * time.Millisecond,
		PartitionWatchInterval: flags.ms("metadata-ms"),
		Logger:                 kafka.LoggerFunc(found.listen),
		ErrorLogger:            kafka.LoggerFunc(errors.Printf),
	}
	if wait := flags.ms("fetch-ms"); wait > 0 {
		config.MaxWait = wait
	}
	if flags.commits("auto") {
		config.CommitInterval = flags.ms("commit-ms")
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	found.reader = kafka.NewReader(config)
	return found, nil
}

func (c *kafkaGoClient) listen(format string, values ...any) {
	line := fmt.Sprintf(format, values...)
	if found := kafkaGoJoined.FindStringSubmatch(line); found != nil {
		c.changing.Lock()
		c.id = found[1]
		c.changing.Unlock()
	}
	if found := kafkaGoAssigned.FindStringSubmatch(line); found != nil {
		number, _ := strconv.ParseInt(found[1], 10, 32)
		tellParts("assigned", c.flags.text("group"), c.member(), map[string][]int32{found[2]: {int32(number)}})
	}
}

func (c *kafkaGoClient) poll(wait time.Duration, work func()) int {
	count := 0
	for count == 0 || !c.flags.commits("record") {
		limited, done := context.WithTimeout(context.Background(), wait)
		message, err := c.reader.FetchMessage(limited)
		done()
		if err != nil {
			return count
		}
		// A batch is worked on once.
		if count == 0 {
			work()
		}
		if c.flags.commits("auto") {
			// With an interval this only takes note.
			tellRefused(c.member(), c.reader.CommitMessages(context.Background(), message))
		} else {
			c.read = append(c.read, message)
		}
		count++
		wait = time.Millisecond
	}
	return count
}

func (c *kafkaGoClient) busy() {}

func (c *kafkaGoClient) commit() {
	limited, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	tellRefused(c.member(), c.reader.CommitMessages(limited, c.read...))
	c.read = nil
}

func (c *kafkaGoClient) obey([]string) bool { return false }

func (c *kafkaGoClient) member() string {
	c.changing.Lock()
	defer c.changing.Unlock()
	return c.id
}

func (c *kafkaGoClient) close() {
	_ = c.reader.Close()
}
