package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// flags are one client's settings, by the names of flags.py.
type flags struct {
	values map[string]string
}

// parse reads a command line; with `--each` it gives the settings of one client in each group of a herd.
func parse(arguments []string) ([]*flags, error) {
	values := map[string]string{}
	for at := 0; at+1 < len(arguments); at += 2 {
		name, isFlag := strings.CutPrefix(arguments[at], "--")
		if !isFlag {
			return nil, fmt.Errorf("not a flag: %s", arguments[at])
		}
		values[name] = arguments[at+1]
	}
	each := values["each"]
	if each == "" {
		return []*flags{{values}}, nil
	}
	var herd []*flags
	for _, one := range strings.Split(each, ";") {
		own := maps.Clone(values)
		for _, pair := range strings.Fields(one) {
			name, value, _ := strings.Cut(pair, "=")
			own[name] = value
		}
		herd = append(herd, &flags{own})
	}
	return herd, nil
}

func (f *flags) text(name string) string { return f.values[name] }

func (f *flags) list(name string) []string { return strings.Split(f.values[name], ",") }

func (f *flags) ms(name string) time.Duration {
	found, err := strconv.Atoi(f.values[name])
	if err != nil {
		panic(fmt.Sprintf("--%s %q is no number of milliseconds", name, f.values[name]))
	}
	return time.Duration(found) * time.Millisecond
}

func (f *flags) seconds(name string) time.Duration {
	found, _ := strconv.ParseFloat(f.values[name], 64)
	return time.Duration(found * float64(time.Second))
}

// source gives the address that connections come from; nil where it is the machine's to choose.
func source() net.Addr {
	if host := os.Getenv("LAB_SOURCE"); host != "" {
		return &net.TCPAddr{IP: net.ParseIP(host)}
	}
	return nil
}

// commits tells whether the client commits in this way: auto, manual, record, timer or none.
func (f *flags) commits(way string) bool { return f.values["commit"] == way }

// deaf clients do not let a rebalance interrupt what they are doing.
func (f *flags) deaf() bool { return f.values["mode"] == "deaf" }
