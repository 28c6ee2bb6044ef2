package main

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// Clients of one process that all started in the same moment would all commit in the same moment.
	apart = 270 * time.Millisecond
	// A large herd is there within this time.
	started = time.Minute
	backlog = 64
)

// client is what a library must be able to do for a worker.
type client interface {
	// poll waits up to a time for records, processes them by calling `work`, and gives their number.
	poll(wait time.Duration, work func()) int
	// commit commits what was processed, and waits for the answer.
	commit()
	// busy is called before a stall: a deaf client takes something to be busy with.
	busy()
	// obey does what only this client can; false if it knows no such command.
	obey(command []string) bool
	member() string
	close()
}

// closing is closed when everything is to end: stdin ended, or a signal came.
var closing = make(chan struct{})

type worker struct {
	flags    *flags
	build    func(*flags) (client, error)
	client   client
	commands chan []string
	due      time.Time
	// Clients that were abandoned without a close; they live on.
	leaked []client
}

func live(everyone []*flags, build func(*flags) (client, error)) {
	workers := make([]*worker, len(everyone))
	for at, one := range everyone {
		workers[at] = &worker{flags: one, build: build, commands: make(chan []string, backlog)}
	}
	go listen(workers)
	var alive sync.WaitGroup
	for _, one := range workers {
		alive.Add(1)
		go func() {
			defer alive.Done()
			one.run()
		}()
		pause(min(apart, started/time.Duration(len(workers))))
	}
	alive.Wait()
}

func listen(workers []*worker) {
	ended := sync.OnceFunc(func() { close(closing) })
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		ended()
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command := strings.Fields(lines.Text())
		if len(command) == 1 && command[0] == "close" {
			break
		}
		for _, one := range workers {
			one.commands <- command
		}
	}
	ended()
}

func isClosing() bool {
	select {
	case <-closing:
		return true
	default:
		return false
	}
}

func pause(wait time.Duration) {
	select {
	case <-closing:
	case <-time.After(wait):
	}
}

// about gives another time each time, of which the mean is the one given.
func about(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * (0.1 + 1.8*rand.Float64()))
}

// run lives once, or over and over until everything is to end.
func (w *worker) run() {
	rest := w.flags.seconds("rest-s")
	for w.life() && rest > 0 {
		pause(about(rest))
		if isClosing() {
			return
		}
	}
}

func (w *worker) life() bool {
	tell("started", map[string]any{"group": w.flags.text("group"), "client_id": w.flags.text("client-id")})
	if !w.begin() {
		return false
	}
	w.due = time.Now().Add(w.flags.ms("commit-ms"))
	lifetime := w.flags.seconds("lifetime-s")
	if w.flags.seconds("rest-s") > 0 {
		lifetime = about(lifetime)
	}
	end := time.Now().Add(lifetime)
	for !isClosing() && (lifetime == 0 || time.Now().Before(end)) {
		select {
		case command := <-w.commands:
			w.follow(command)
		default:
			w.turn()
		}
	}
	tell("closing", map[string]any{"member": w.client.member()})
	w.client.close()
	tell("closed", nil)
	return true
}

func (w *worker) begin() bool {
	found, err := w.build(w.flags)
	if err != nil {
		tell("error", map[string]any{"error": err.Error()})
		return false
	}
	w.client = found
	return true
}

func (w *worker) turn() {
	count := w.client.poll(w.flags.ms("wait-ms"), func() {
		if work := w.flags.seconds("processing-s"); work > 0 {
			pause(work)
		}
	})
	byHand := w.flags.commits("manual") || w.flags.commits("record")
	if count > 0 && byHand {
		w.client.commit()
	}
	if w.flags.commits("timer") && !time.Now().Before(w.due) {
		w.due = time.Now().Add(w.flags.ms("commit-ms"))
		w.client.commit()
	}
}

func (w *worker) follow(command []string) {
	switch {
	case command[0] == "stall" && len(command) == 2:
		w.stall(command[1])
	case command[0] == "leak":
		w.leaked = append(w.leaked, w.client)
		w.begin()
	case command[0] == "commit":
		w.client.commit()
	case !w.client.obey(command):
		tell("error", map[string]any{"error": "unknown command " + strings.Join(command, " ")})
	}
	tell("obeyed", map[string]any{"command": strings.Join(command, " ")})
}

// stall processes for some seconds. No Go client leaves a group for that, so it tells of no limit.
func (w *worker) stall(seconds string) {
	w.client.busy()
	length, err := time.ParseDuration(seconds + "s")
	if err != nil {
		tell("error", map[string]any{"error": err.Error()})
		return
	}
	tell("processing", map[string]any{
		"seconds": length.Seconds(), "member": w.client.member(), "group": w.flags.text("group"),
	})
	pause(length)
}
