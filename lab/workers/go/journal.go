package main

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

var writing sync.Mutex

// tell writes one event of the journal, a line of JSON on stdout, with the time in ms.
func tell(event string, fields map[string]any) {
	line := map[string]any{"at": time.Now().UnixMilli(), "event": event}
	for name, value := range fields {
		line[name] = value
	}
	body, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	writing.Lock()
	defer writing.Unlock()
	_, _ = os.Stdout.Write(append(body, '\n'))
}

func tellParts(event string, group string, member string, parts map[string][]int32) {
	names := []string{}
	for topic, numbers := range parts {
		for _, number := range numbers {
			names = append(names, topic+"-"+strconv.Itoa(int(number)))
		}
	}
	slices.Sort(names)
	tell(event, map[string]any{"member": member, "partitions": names, "group": group})
}

func tellRefused(member string, err error) {
	if err != nil {
		tell("commit_refused", map[string]any{"error": err.Error(), "member": member})
	}
}
