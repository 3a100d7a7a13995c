package alarm

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const gib = 1 << 30

func TestAlarmsGoOnAtTheLimitAndOffWellClearOfIt(t *testing.T) {
	l := Limits{MemoryHigh: 0.6, DiskFree: []Floor{{Bytes: gib}, {Percent: 5}}}
	for _, c := range []struct {
		name   string
		before Alarms
		r      Reading
		want   Alarms
	}{
		{"all is well", 0, Reading{MemoryUsed: gib, MemoryTotal: 10 * gib, DiskFree: 50 * gib, DiskTotal: 100 * gib}, 0},
		{"memory is used", 0, Reading{MemoryUsed: 6*gib + gib/10, MemoryTotal: 10 * gib}, Memory},
		{"memory at its limit", 0, Reading{MemoryUsed: 6*gib - 1, MemoryTotal: 10 * gib}, 0},
		{"memory a little below its limit, after an alarm", Memory, Reading{MemoryUsed: 6*gib - gib/10, MemoryTotal: 10 * gib}, Memory},
		{"memory well below its limit, after an alarm", Memory, Reading{MemoryUsed: 5 * gib, MemoryTotal: 10 * gib}, 0},
		{"a big disk needs a GiB", 0, Reading{DiskFree: gib - 1, DiskTotal: 1000 * gib}, Disk},
		{"a big disk needs no more", 0, Reading{DiskFree: gib + 1, DiskTotal: 1000 * gib}, 0},
		{"a small disk needs 5 %", 0, Reading{DiskFree: gib / 2, DiskTotal: 10*gib + 100}, Disk},
		{"a disk a little above its limit, after an alarm", Disk, Reading{DiskFree: gib + 1, DiskTotal: 1000 * gib}, Disk},
		{"a disk well above its limit, after an alarm", Disk, Reading{DiskFree: 2 * gib, DiskTotal: 1000 * gib}, 0},
		{"the log found no room", 0, Reading{DiskFull: true}, Disk},
		{"nothing can be read", 0, Reading{}, 0},
		{"both", Memory, Reading{MemoryUsed: 9 * gib, MemoryTotal: 10 * gib, DiskFree: 1, DiskTotal: gib}, Memory | Disk},
	} {
		if got := l.Judge(c.before, c.r); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got.Names(), c.want.Names())
		}
	}
	if got := (Limits{}).Judge(0, Reading{MemoryUsed: gib, MemoryTotal: 1, DiskTotal: gib}); got != 0 {
		t.Errorf("without limits: %v", got.Names())
	}
}

func TestReasonsAreRabbitMQs(t *testing.T) {
	for a, want := range map[Alarms]string{0: "", Memory: "low on memory", Disk: "low on disk", Memory | Disk: "low on memory & low on disk"} {
		if got := a.Reason(); got != want {
			t.Errorf("%v: %q, want %q", a.Names(), got, want)
		}
	}
}

func TestFloorsAreSizesAndPercentages(t *testing.T) {
	for text, want := range map[string][]Floor{
		"": nil, "0": nil, "1GiB,5%": {{Bytes: gib}, {Percent: 5}}, "50MB": {{Bytes: 50e6}}, "1.5 KiB": {{Bytes: 1536}}, "7": {{Bytes: 7}}, "100%": {{Percent: 100}},
	} {
		if got, err := ParseFloors(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{",", "x", "-1", "101%", "1XB", "NaN", "1e30GiB", "5%%"} {
		if got, err := ParseFloors(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestMemoryIsTheMachinesOrWhatItsControlGroupAllows(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	info := file("meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n")
	for group, want := range map[string]uint64{"max\n": 16 << 20, "1048576\n": 1 << 20, strings.Repeat("9", 19): 16 << 20} {
		if got := memoryTotal(info, filepath.Join(dir, "none"), file("group", group)); got != want {
			t.Errorf("group of %q: %d, want %d", group, got, want)
		}
	}
}

func TestTheSystemsGaugesShowSomething(t *testing.T) {
	r := System(t.TempDir())()
	if r.MemoryUsed == 0 || r.DiskFree == 0 || r.DiskTotal < r.DiskFree {
		t.Errorf("%+v", r)
	}
	if memoryUsed(filepath.Join(t.TempDir(), "none")) == 0 {
		t.Error("the runtime tells of no memory")
	}
}
