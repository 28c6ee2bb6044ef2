// Worker plays a member of a consumer group with one of three Go clients: the flags, commands and journal are
// those of the Python workers (flags.py, loop.py). The first argument names the client.
package main

import (
	"fmt"
	"os"
)

var makers = map[string]func(*flags) (client, error){
	"sarama":   newSarama,
	"franz-go": newFranz,
	"kafka-go": newKafkaGo,
}

func main() {
	if len(os.Args) < 2 || makers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: worker sarama|franz-go|kafka-go --bootstrap … --group … --topics …")
		os.Exit(2)
	}
	everyone, err := parse(os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	live(everyone, makers[os.Args[1]])
}
