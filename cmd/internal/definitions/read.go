package definitions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// Faults are all that is wrong with a file, each a line.
type Faults []string

func (f Faults) Error() string { return strings.Join(f, "\n") }

func (f *Faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// or answers nil where there is no fault.
func (f Faults) or() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// sections are the lists of a file; the other way from api.Definitions each is read by itself, so that a fault in one does not
// hide those of the next.
func sections(d *api.Definitions) map[string]func(json.RawMessage, *Faults) {
	return map[string]func(json.RawMessage, *Faults){
		"users":             into(&d.Users),
		"vhosts":            into(&d.Vhosts),
		"permissions":       into(&d.Permissions),
		"topic_permissions": into(&d.TopicPermissions),
		"parameters":        into(&d.Parameters),
		"global_parameters": into(&d.GlobalParameters),
		"policies":          into(&d.Policies),
		"queues":            into(&d.Queues),
		"exchanges":         into(&d.Exchanges),
		"bindings":          into(&d.Bindings),
	}
}

// into reads a list into to, entry by entry.
func into[T any](to *[]T) func(json.RawMessage, *Faults) {
	return func(text json.RawMessage, faults *Faults) {
		var items []json.RawMessage
		if err := json.Unmarshal(text, &items); err != nil {
			faults.add("is no list, but %s", misfit(err))
			return
		}
		for i, item := range items {
			var x T
			if err := json.Unmarshal(item, &x); err != nil {
				faults.add("entry %d: %s", i+1, misfit(err))
				continue
			}
			*to = append(*to, x)
		}
	}
}

// File is what could be read of a file.
type File struct {
	api.Definitions
	faults Faults          // what could not, among others
	partly map[string]bool // the lists that are not wholly here: nobody knows what else they define
}

// misfit says what JSON was found in the place of something else.
func misfit(err error) string {
	var found *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &found):
		return err.Error()
	case found.Field == "":
		return found.Value
	}
	return fmt.Sprintf("%s: %s has no place there", found.Field, found.Value)
}

// Read reads a file; with a vhost all that it defines is of that vhost, whatever the file says. Texts and numbers that RabbitMQ's
// later versions add beside the lists are not looked at; a list that is not known is a fault, as leaving it out would lose what it
// defines. An error is Faults, for a text that is no file of definitions at all; other faults are for Check to tell with its own.
func Read(text []byte, vhost string) (*File, error) {
	var raw map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&raw); err != nil {
		return nil, Faults{"it is no JSON object: " + err.Error()}
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, Faults{"there is more behind the JSON object"}
	}
	f := &File{partly: map[string]bool{}}
	known := sections(&f.Definitions)
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		read := known[name]
		value := bytes.TrimSpace(raw[name])
		switch {
		case read != nil:
			var own Faults
			read(value, &own)
			f.partly[name] = len(own) > 0
			for _, fault := range own {
				f.faults.add("%s: %s", name, fault)
			}
		case vhost != "" && name == "metadata", vhost != "" && name == "limits": // of an export of one vhost of RabbitMQ 4
		case value[0] == '{' && string(value) != "{}", value[0] == '[' && string(value) != "[]":
			f.faults.add("%s: such definitions are not known", name)
		}
	}
	if vhost != "" {
		within(&f.Definitions, vhost, &f.faults)
	}
	return f, nil
}

// within makes all that is defined vhost's.
func within(d *api.Definitions, vhost string, faults *Faults) {
	for name, n := range map[string]int{
		"users": len(d.Users), "vhosts": len(d.Vhosts), "permissions": len(d.Permissions), "topic_permissions": len(d.TopicPermissions),
	} {
		if n > 0 {
			faults.add("%s: those belong to the whole cluster, and the definitions are to be one vhost's", name)
		}
	}
	d.Users, d.Vhosts, d.Permissions, d.TopicPermissions = nil, nil, nil, nil
	for i := range d.Parameters {
		d.Parameters[i].Vhost = vhost
	}
	for i := range d.Policies {
		d.Policies[i].Vhost = vhost
	}
	for i := range d.Queues {
		d.Queues[i].Vhost = vhost
	}
	for i := range d.Exchanges {
		d.Exchanges[i].Vhost = vhost
	}
	for i := range d.Bindings {
		d.Bindings[i].Vhost = vhost
	}
	slices.SortFunc(*faults, cmp.Compare)
}
