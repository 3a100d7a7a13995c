package telemetry

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Process is what the operating system says of this process; 0 where it does not.
type Process struct {
	ResidentBytes       int64
	OpenFiles, MaxFiles int
	DiskFreeBytes       int64 // where the data folder is
}

// ReadProcess asks the operating system.
func ReadProcess(data string) Process {
	resident, _ := residentBytes()
	open, _ := openFiles()
	most, _ := maxFiles()
	free, _ := diskFree(data)
	return Process{ResidentBytes: int64(resident), OpenFiles: int(open), MaxFiles: int(most), DiskFreeBytes: int64(free)}
}

// residentBytes reads the process's resident memory where the system tells it.
func residentBytes() (float64, bool) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseUint(f[1], 10, 64)
	return float64(pages) * float64(os.Getpagesize()), err == nil
}

func openFiles() (float64, bool) {
	d, err := os.ReadDir("/proc/self/fd")
	return float64(len(d)), err == nil
}

func maxFiles() (float64, bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return float64(l.Cur), err == nil
}

func diskFree(data string) (float64, bool) {
	var s syscall.Statfs_t
	err := syscall.Statfs(data, &s)
	return float64(s.Bavail) * float64(s.Bsize), err == nil
}
