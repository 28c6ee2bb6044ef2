package main

import (
	"context"
	"log"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var saramaBalancers = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

// saramaClient hands the messages of all claims to the worker's one loop. A deaf one goes on with its message
// when the session ends, as handlers do that never look at the session's context.
type saramaClient struct {
	flags    *flags
	group    sarama.ConsumerGroup
	messages chan *handed
	ended    context.CancelFunc
	over     chan struct{}

	changing sync.Mutex
	session  sarama.ConsumerGroupSession
	topics   []string
	// Closed to let the handlers return, which makes the client join again.
	again chan struct{}
}

// handed is a message on its way from a claim to the loop and back.
type handed struct {
	message *sarama.ConsumerMessage
	session sarama.ConsumerGroupSession
	done    chan struct{}
}

func newSarama(flags *flags) (client, error) {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds|log.LUTC)
	group, err := sarama.NewConsumerGroup(flags.list("bootstrap"), flags.text("group"), saramaConfig(flags))
	if err != nil {
		return nil, err
	}
	context, ended := context.WithCancel(context.Background())
	found := &saramaClient{
		flags: flags, group: group, messages: make(chan *handed), ended: ended,
		over: make(chan struct{}), topics: flags.list("topics"), again: make(chan struct{}),
	}
	go found.consume(context)
	return found, nil
}

func saramaConfig(flags *flags) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Net.LocalAddr = source()
	if flags.text("client-id") != "" {
		config.ClientID = flags.text("client-id")
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = flags.commits("auto")
	config.Consumer.Offsets.AutoCommit.Interval = flags.ms("commit-ms")
	config.Consumer.Group.InstanceId = flags.text("instance-id")
	config.Consumer.Group.Session.Timeout = flags.ms("session-ms")
	config.Consumer.Group.Heartbeat.Interval = flags.ms("heartbeat-ms")
	config.Consumer.Group.Rebalance.Timeout = flags.ms("poll-ms")
	balancer := saramaBalancers[flags.text("assignor")]
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{balancer}
	if wait := flags.ms("fetch-ms"); wait > 0 {
		// A heartbeat waits behind a fetch on the same connection: long fetches would cost the session.
		config.Consumer.MaxWaitTime = min(wait, flags.ms("session-ms")/10)
	}
	config.Metadata.RefreshFrequency = flags.ms("metadata-ms")
	return config
}

func (c *saramaClient) consume(context context.Context) {
	defer close(c.over)
	for context.Err() == nil {
		if err := c.group.Consume(context, c.subscription(), c); err != nil && context.Err() == nil {
			tell("error", map[string]any{"error": err.Error()})
			time.Sleep(time.Second)
		}
	}
}

func (c *saramaClient) subscription() []string {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.again = make(chan struct{})
	return c.topics
}

func (c *saramaClient) Setup(session sarama.ConsumerGroupSession) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.session = session
	tellParts("assigned", c.flags.text("group"), session.MemberID(), session.Claims())
	return nil
}

func (c *saramaClient) Cleanup(session sarama.ConsumerGroupSession) error {
	tellParts("revoked", c.flags.text("group"), session.MemberID(), session.Claims())
	return nil
}

func (c *saramaClient) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	c.changing.Lock()
	again := c.again
	c.changing.Unlock()
	for {
		select {
		case message, open := <-claim.Messages():
			if !open || !c.hand(session, message) {
				return nil
			}
		// Whoever returns before the session is over ends it, and rejoins.
		case <-again:
			return nil
		}
	}
}

func (c *saramaClient) hand(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) bool {
	over := session.Context().Done()
	if c.flags.deaf() {
		over = closing
	}
	one := &handed{message, session, make(chan struct{})}
	select {
	case c.messages <- one:
		<-one.done
		return true
	case <-over:
		return false
	}
}

func (c *saramaClient) poll(wait time.Duration, work func()) int {
	count := 0
	for count == 0 || !c.flags.commits("record") {
		select {
		case one := <-c.messages:
			// A batch is worked on once.
			if count == 0 {
				work()
			}
			one.session.MarkMessage(one.message, "")
			close(one.done)
			count++
			// What is there already belongs to the same batch.
			wait = time.Millisecond
		case <-time.After(wait):
			return count
		}
	}
	return count
}

func (c *saramaClient) busy() {}

func (c *saramaClient) commit() {
	if session := c.current(); session != nil {
		session.Commit()
	}
}

func (c *saramaClient) current() sarama.ConsumerGroupSession {
	c.changing.Lock()
	defer c.changing.Unlock()
	return c.session
}

func (c *saramaClient) obey(command []string) bool {
	c.changing.Lock()
	defer c.changing.Unlock()
	switch {
	case command[0] == "subscribe" && len(command) == 2:
		c.topics = (&flags{map[string]string{"topics": command[1]}}).list("topics")
	case command[0] == "rejoin":
	default:
		return false
	}
	select {
	case <-c.again:
	default:
		close(c.again)
	}
	return true
}

func (c *saramaClient) member() string {
	if session := c.current(); session != nil {
		return session.MemberID()
	}
	return ""
}

func (c *saramaClient) close() {
	c.ended()
	_ = c.group.Close()
	<-c.over
}
