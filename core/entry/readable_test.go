package entry

import (
	"errors"
	"testing"
)

func TestOnlyWhatThisVersionKnowsIsReadable(t *testing.T) {
	one := func(version byte, commands []byte) []byte {
		data := AppendBatch(AppendHeader(nil, 5), 1, 2, 3, commands)
		data[0] = version
		return data
	}
	fine := Append(Append(nil, &Publish{Record: []byte("record")}), &VhostPut{ID: "id", Name: "v"})
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"raft's own":      {nil, nil},
		"of this version": {one(Version, fine), nil},
		"newer entry":     {one(Version+1, fine), ErrUnknown},
		"newer command":   {one(Version, append(fine[:len(fine):len(fine)], 127, 0)), ErrUnknown},
		"newer level":     {one(Version, Append(nil, &LevelRaise{Level: Level + 1})), ErrUnknown},
		"level of others": {one(Version, Append(nil, &LevelRaise{Level: 1})), ErrUnknown},
		"cut command":     {one(Version, fine[:len(fine)-1]), ErrMalformed},
		"cut entry":       {one(Version, fine)[:12], ErrMalformed},
		"a replay":        {AppendReplay(nil, &Replay{Source: "s", Inner: []byte{99}}), nil},
	} {
		if err := Readable(c.data, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestALevelThatAllReadIsReadable(t *testing.T) {
	data := AppendBatch(AppendHeader(nil, 5), 1, 0, 0, Append(nil, &LevelRaise{Level: Level}))
	if err := Readable(data, Level); err != nil {
		t.Error(err)
	}
}
