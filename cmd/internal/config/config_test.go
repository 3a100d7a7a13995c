package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// load reads settings from flags, a file's text ("" for none) and an environment.
func load(t *testing.T, args []string, file string, environ ...string) (Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	Flags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	path := ""
	if file != "" {
		path = filepath.Join(t.TempDir(), "understudy.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(flags, path, environ)
}

func TestWithoutSettingsTheDefaultsHold(t *testing.T) {
	got, err := load(t, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if got != Default() {
		t.Errorf("got %+v, want %+v", got, Default())
	}
	if err := got.Validate(); err != nil {
		t.Errorf("the defaults have faults: %v", err)
	}
}

func TestFlagsBeatEnvironmentBeatsFileBeatsDefaults(t *testing.T) {
	file := "node-id: 2\ngroups: 2\nlog-level: warn\n"
	got, err := load(t, []string{"--node-id", "4"}, file, "UNDERSTUDY_NODE_ID=3", "UNDERSTUDY_GROUPS=3", "OTHER=1")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.NodeID, want.Groups, want.LogLevel = 4, 3, "warn"
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A flag that is given with its default's value still beats the file.
func TestAFlagWithTheDefaultsValueBeatsTheFile(t *testing.T) {
	got, err := load(t, []string{"--groups", "4"}, "groups: 9\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.Groups != 4 {
		t.Errorf("groups %d, want 4", got.Groups)
	}
}

func TestEverySettingIsAFlagAVariableAndAKey(t *testing.T) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	Flags(flags)
	settings := reflect.TypeFor[Config]()
	for i := range settings.NumField() {
		f := settings.Field(i)
		key := f.Tag.Get("koanf")
		if f.Tag.Get("yaml") != key {
			t.Errorf("%s: yaml %q, koanf %q", f.Name, f.Tag.Get("yaml"), key)
		}
		flag := flags.Lookup(key)
		if flag == nil {
			t.Errorf("no flag --%s", key)
			continue
		}
		value := flag.DefValue
		if value == "" {
			value = "text"
		}
		name := "UNDERSTUDY_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
		if _, err := load(t, nil, key+": "+value+"\n", name+"="+value); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !keys()[f.Name] {
			t.Errorf("--%s is no setting", f.Name)
		}
	})
}

func TestAPrintedConfigurationReadsBackAsTheSame(t *testing.T) {
	want := Config{
		Data: "/x: y", NodeID: 7, AMQP: ":1", AMQPS: ":2", Admin: ":3", Peer: "h:4", Cluster: "7=h:4,8=g:4", Groups: 64,
		TLSCert: "a", TLSKey: "b", TLSCA: "c", PeerTLSCert: "d", PeerTLSKey: "e", PeerTLSCA: "f", DefaultUser: "'u\"",
		DefaultPass: "p#: {x", LoadDefinitions: "d.json",
		Link: ":9", LinkSource: "h:5,i:6", LinkTokenFile: "t", Standby: true, LinkSeed: 3, StandbyClients: "park",
		LinkServeTokenFile: "st", LinkFenceTokenFile: "ft", LinkHoldSeconds: 1.25, LinkHoldDiskPercent: 7,
		LinkTLSCert: "k", LinkTLSKey: "l", LinkTLSCA: "m", MaxMessageBytes: 5, DrainSeconds: 1.5, LogLevel: "debug", LogFormat: "json", Join: "",
	}
	b, err := want.YAML()
	if err != nil {
		t.Fatal(err)
	}
	got, err := load(t, nil, string(b))
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestUnknownKeysOfTheFileAreFaults(t *testing.T) {
	_, err := load(t, nil, "no-such: 1\nnor-this: 2\ngroups: many\n")
	if err == nil || !strings.Contains(err.Error(), "no-such") || !strings.Contains(err.Error(), "nor-this") || !strings.Contains(err.Error(), "--groups: ") {
		t.Errorf("error %v, want one that names both keys, and the value of a wrong type", err)
	}
}

func TestUnknownVariablesAreLeftAlone(t *testing.T) {
	if _, err := load(t, nil, "", "UNDERSTUDY_SERVICE_HOST=10.0.0.1", "UNDERSTUDY_PORT=tcp://x"); err != nil {
		t.Error(err)
	}
}

func TestValuesOfAWrongTypeAndMissingFilesAreFaults(t *testing.T) {
	want := "--memory-high: \"much\" is not a number\n--node-id: \"two\" is not a whole number\n--standby: \"perhaps\" is not true or false"
	_, err := load(t, nil, "memory-high: much\n", "UNDERSTUDY_NODE_ID=two", "UNDERSTUDY_STANDBY=perhaps")
	if err == nil {
		t.Fatal("values of a wrong type were taken")
	}
	lines := strings.Split(err.Error(), "\n")
	slices.Sort(lines)
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := Load(pflag.NewFlagSet("", pflag.ContinueOnError), "/no/such/file", nil); err == nil {
		t.Error("a missing file was taken")
	}
}

func TestValidateListsEveryFaultAtOnce(t *testing.T) {
	c := Config{
		Data: "", NodeID: 0, AMQP: "5672", AMQPS: "x:y", Admin: ":70000", Peer: "", Groups: 65, Join: "ftp://x",
		PeerTLSCert: "only", TLSLoginFrom: "SAN", DefaultUser: "", MaxMessageBytes: MessageBytesMax + 1, DrainSeconds: -1, MemoryHigh: 1.1, DiskFreeMin: "1XB", LogLevel: "loud", LogFormat: "xml",
		Cluster: "1=", Standby: true, LoadDefinitions: "d", StandbyClients: "eat", LinkServeTokenFile: "t", LinkTLSCert: "c", LinkHoldDiskPercent: 101,
	}
	var f Faults
	if !errors.As(c.Validate(), &f) {
		t.Fatal("no faults")
	}
	for _, key := range []string{
		"data", "node-id", "amqp", "amqps", "admin", "peer", "groups", "join", "tls-login-from", "peer-tls-cert", "default-user",
		"max-message-bytes", "memory-high", "disk-free-min", "drain-seconds", "log-level", "log-format", "cluster",
		"link-source", "standby", "load-definitions", "standby-clients", "link-tls-cert", "link-hold-seconds", "link-hold-disk-percent",
	} {
		if !strings.Contains("\n"+f.Error(), "\n--"+key+": ") {
			t.Errorf("no fault of --%s in:\n%v", key, f)
		}
	}
}

func TestMembers(t *testing.T) {
	for _, c := range []struct {
		cluster string
		want    map[uint64]string
	}{
		{"", map[uint64]string{1: "127.0.0.1:7400"}},
		{"1=a:1,2=b:2, 3=[::1]:3", map[uint64]string{1: "a:1", 2: "b:2", 3: "[::1]:3"}},
		{"1=a:1,1=b:2", nil},
		{"0=a:1", nil},
		{"1=:1", nil},
		{"1=a:0", nil},
		{"a:1", nil},
	} {
		cfg := Default()
		cfg.Cluster = c.cluster
		got, err := cfg.Members()
		if (err == nil) != (c.want != nil) || err == nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, %v, want %v", c.cluster, got, err, c.want)
		}
	}
}

func TestAClusterMustNameTheNode(t *testing.T) {
	c := Default()
	c.NodeID, c.Cluster = 3, "1=a:1,2=b:2"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--cluster") {
		t.Errorf("error %v, want one about --cluster", err)
	}
}

func TestALinkWithoutTLSServesThisMachineOnly(t *testing.T) {
	for address, good := range map[string]bool{"127.0.0.1:7500": true, "[::1]:7500": true, "localhost:1": true, "": true, ":7500": true, "0.0.0.0:7500": false, "10.0.0.1:1": false} {
		c := Default()
		c.LinkServeTokenFile, c.Link = "tokens", address
		if err := c.Validate(); (err == nil) != good {
			t.Errorf("--link %q: %v", address, err)
		}
		c.LinkTLSCert, c.LinkTLSKey = "c", "k"
		if err := c.Validate(); err != nil {
			t.Errorf("--link %q with TLS: %v", address, err)
		}
	}
}
