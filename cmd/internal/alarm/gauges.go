package alarm

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
)

// System reads the process's memory and the disk of a folder.
func System(folder string) Gauges {
	total := memoryTotal("/proc/meminfo", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
	return func() Reading {
		r := Reading{MemoryUsed: memoryUsed("/proc/self/statm"), MemoryTotal: total}
		var s syscall.Statfs_t
		if syscall.Statfs(folder, &s) == nil {
			r.DiskFree, r.DiskTotal = s.Bavail*uint64(s.Bsize), s.Blocks*uint64(s.Bsize)
		}
		return r
	}
}

// memoryUsed is the process's resident memory without mapped files, which go when room is needed. Where the system does not
// tell it, it is what the Go runtime has of it.
func memoryUsed(statm string) uint64 {
	b, err := os.ReadFile(statm)
	if f := strings.Fields(string(b)); err == nil && len(f) > 2 {
		resident, err1 := strconv.ParseUint(f[1], 10, 64)
		shared, err2 := strconv.ParseUint(f[2], 10, 64)
		if err1 == nil && err2 == nil && resident >= shared {
			return (resident - shared) * uint64(os.Getpagesize())
		}
	}
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// memoryTotal is the machine's memory, or less where a control group allows less; 0 if neither is known.
func memoryTotal(meminfo string, groups ...string) uint64 {
	var total uint64
	b, err := os.ReadFile(meminfo)
	if line, _, _ := bytes.Cut(b, []byte("\n")); err == nil {
		if f := strings.Fields(string(line)); len(f) == 3 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseUint(f[1], 10, 53)
			total = kib << 10
		}
	}
	for _, g := range groups {
		b, err := os.ReadFile(g)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && (total == 0 || n < total) {
			total = n
		}
	}
	return total
}
