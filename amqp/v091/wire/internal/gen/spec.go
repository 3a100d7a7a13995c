package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
)

// spec is what of an AMQP 0-9-1 specification file the generator uses.
type spec struct {
	Constants []constant `xml:"constant"`
	Domains   []domain   `xml:"domain"`
	Classes   []class    `xml:"class"`
}

type constant struct {
	Name  string `xml:"name,attr"`
	Value int    `xml:"value,attr"`
	Class string `xml:"class,attr"`
}

type domain struct {
	Name string `xml:"name,attr"`
	Type string `xml:"type,attr"`
}

type class struct {
	Name    string   `xml:"name,attr"`
	Index   int      `xml:"index,attr"`
	Methods []method `xml:"method"`
}

type method struct {
	Name    string  `xml:"name,attr"`
	Index   int     `xml:"index,attr"`
	Content int     `xml:"content,attr"`
	Fields  []field `xml:"field"`
}

type field struct {
	Name     string `xml:"name,attr"`
	Domain   string `xml:"domain,attr"`
	Type     string `xml:"type,attr"`
	Reserved int    `xml:"reserved,attr"`
}

// readSpec reads the files in turn into one spec, with every field's domain resolved to its type.
func readSpec(paths ...string) (*spec, error) {
	s := new(spec)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var one spec
		if err := xml.Unmarshal(b, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		s.Constants = append(s.Constants, one.Constants...)
		s.Domains = append(s.Domains, one.Domains...)
		s.Classes = append(s.Classes, one.Classes...)
	}
	return s, s.resolve()
}

// kept are reserved fields that are of use all the same, with the names that they had in earlier specifications.
var kept = map[string]string{"connection.open-ok.reserved-1": "known-hosts"}

func (s *spec) resolve() error {
	types := map[string]string{}
	for _, d := range s.Domains {
		types[d.Name] = d.Type
	}
	for _, c := range s.Classes {
		for _, m := range c.Methods {
			for i := range m.Fields {
				f := &m.Fields[i]
				if name, ok := kept[c.Name+"."+m.Name+"."+f.Name]; ok {
					f.Name, f.Reserved = name, 0
				}
				if f.Type == "" {
					f.Type = types[f.Domain]
				}
				if coders[f.Type] == (coder{}) && f.Type != "bit" {
					return fmt.Errorf("%s.%s: field %s has unknown type %q", c.Name, m.Name, f.Name, f.Type)
				}
			}
		}
	}
	return nil
}

// goName turns the specification's "delivery-tag" into DeliveryTag.
func goName(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		for _, w := range strings.Split(p, "-") {
			switch w {
			case "id":
				b.WriteString("ID")
			case "nowait":
				b.WriteString("NoWait")
			default:
				b.WriteString(strings.ToUpper(w[:1]) + w[1:])
			}
		}
	}
	return b.String()
}
