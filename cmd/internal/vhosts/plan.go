package vhosts

import (
	"maps"
	"slices"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// Step is a command that a group lacks.
type Step struct {
	Group   uint64
	Command entry.Command
}

// Plan lists what is to be done. known is what the system group has registered and buried; held is what data groups hold,
// of those whose state is known: no step is about another one.
func Plan(system uint64, known []core.RegisteredVhost, held map[uint64][]core.HeldVhost) []Step {
	var steps []Step
	byID := make(map[string]core.RegisteredVhost, len(known))
	for _, v := range known {
		byID[v.ID] = v
	}
	as := make(map[string]core.HeldVhost) // what is held by the group that it is registered in
	for _, group := range slices.Sorted(maps.Keys(held)) {
		for _, h := range held[group] {
			v, ok := byID[h.ID]
			switch {
			case !ok:
				steps = append(steps, Step{system, &entry.VhostFound{ID: h.ID, Name: h.Name, QueueType: h.QueueType, Group: group}})
			case v.Buried:
				steps = append(steps, Step{group, &entry.VhostDelete{ID: h.ID}})
			case v.Group == group:
				as[h.ID] = h
			}
		}
	}
	for _, v := range known {
		if _, is := held[v.Group]; is && !v.Buried && as[v.ID] != Held(v) {
			steps = append(steps, Step{v.Group, Create(v)})
		}
	}
	return steps
}

// Held is how a registered vhost's group is to hold it.
func Held(v core.RegisteredVhost) core.HeldVhost {
	return core.HeldVhost{ID: v.ID, Name: v.Name, QueueType: v.QueueType}
}

// Create has a registered vhost's group hold it.
func Create(v core.RegisteredVhost) entry.Command {
	return &entry.VhostCreate{ID: v.ID, Name: v.Name, QueueType: v.QueueType}
}
