package alarm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Alarms is a set of what a node is short of. The numbers are written to the log of the system group.
type Alarms uint8

// The alarms.
const (
	Memory Alarms = 1 << iota
	Disk
)

// names are RabbitMQ's, and how it words the reason of connection.blocked.
var names = []struct {
	alarm        Alarms
	name, reason string
}{{Memory, "memory", "low on memory"}, {Disk, "disk", "low on disk"}}

// Names lists the alarms, "memory" and "disk"; empty, not nil, for none.
func (a Alarms) Names() []string {
	list := []string{}
	for _, n := range names {
		if a&n.alarm != 0 {
			list = append(list, n.name)
		}
	}
	return list
}

// Reason is what clients hear of the alarms, in RabbitMQ's words; "" for none.
func (a Alarms) Reason() string {
	var reasons []string
	for _, n := range names {
		if a&n.alarm != 0 {
			reasons = append(reasons, n.reason)
		}
	}
	return strings.Join(reasons, " & ")
}

// Reading is what the gauges of a node show, in bytes. What cannot be read is 0 out of 0.
type Reading struct {
	MemoryUsed, MemoryTotal uint64 // of the process, and what it may have at most
	DiskFree, DiskTotal     uint64 // where the data folder is
	DiskFull                bool   // the log has found no room
}

// Gauges reads a node's gauges.
type Gauges func() Reading

// Floor is how much of a disk has to stay free: a number of bytes, or a share of all.
type Floor struct {
	Bytes   uint64
	Percent float64
}

// Limits say when there is an alarm.
type Limits struct {
	MemoryHigh float64 // the share of MemoryTotal that may be used; 0 is no limit
	DiskFree   []Floor // the lowest counts; none is no limit
}

// MemoryBytes is how much memory may be used, 0 for no limit.
func (l Limits) MemoryBytes(r Reading) uint64 { return uint64(l.MemoryHigh * float64(r.MemoryTotal)) }

// DiskBytes is how much of the disk has to be free, 0 for no limit.
func (l Limits) DiskBytes(r Reading) uint64 {
	var lowest uint64
	for i, f := range l.DiskFree {
		bytes := f.Bytes + uint64(f.Percent/100*float64(r.DiskTotal))
		if i == 0 || bytes < lowest {
			lowest = bytes
		}
	}
	return lowest
}

// slackPart is by what part of its limit a gauge has to be clear of it for an alarm to go off.
const slackPart = 20

// Judge answers the alarms that there are now, where there were some before.
func (l Limits) Judge(before Alarms, r Reading) Alarms {
	var now Alarms
	memory, disk := l.MemoryBytes(r), l.DiskBytes(r)
	if before&Memory != 0 {
		memory -= memory / slackPart
	}
	if before&Disk != 0 {
		disk += disk / slackPart
	}
	if memory > 0 && r.MemoryUsed > memory {
		now |= Memory
	}
	if r.DiskFull || r.DiskTotal > 0 && r.DiskFree < disk {
		now |= Disk
	}
	return now
}

// units of sizes, as people write them.
var units = map[string]uint64{
	"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}

// ParseFloors reads a list of sizes and percentages separated by commas, as "1GiB,5%": the lowest counts. "" and "0" are no
// limit.
func ParseFloors(text string) ([]Floor, error) {
	if text == "" || text == "0" {
		return nil, nil
	}
	var floors []Floor
	for _, part := range strings.Split(text, ",") {
		f, err := parseFloor(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		floors = append(floors, f)
	}
	return slices.Clip(floors), nil
}

func parseFloor(text string) (Floor, error) {
	number := strings.TrimRight(text, "%BbIiKkMmGgTt ")
	n, err := strconv.ParseFloat(number, 64)
	unit := strings.ToUpper(strings.TrimSpace(text[len(number):]))
	if err != nil || !(n >= 0) {
		return Floor{}, fmt.Errorf("%q is no size (as 1GiB) and no percentage (as 5%%)", text)
	}
	if unit == "%" {
		if n > 100 {
			return Floor{}, fmt.Errorf("%q is more than all", text)
		}
		return Floor{Percent: n}, nil
	}
	factor, ok := units[unit]
	if !ok {
		return Floor{}, fmt.Errorf("%q has no unit that is known (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB, %%)", text)
	}
	if n *= float64(factor); n > 1<<62 {
		return Floor{}, fmt.Errorf("%q is too much", text)
	}
	return Floor{Bytes: uint64(n)}, nil
}
