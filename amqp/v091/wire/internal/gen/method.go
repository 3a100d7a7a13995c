package main

import (
	"bytes"
	"fmt"
)

func methodType(b *bytes.Buffer, c class, m method) {
	name := goName(c.Name, m.Name)
	fmt.Fprintf(b, "// %s is %s.%s.\ntype %s struct {\n", name, c.Name, m.Name, name)
	for _, f := range m.Fields {
		if f.Reserved == 1 {
			continue
		}
		if f.Type == "bit" {
			fmt.Fprintf(b, "\t%s bool\n", goName(f.Name))
			continue
		}
		fmt.Fprintf(b, "\t%s %s\n", goName(f.Name), m.coder(f).goType)
	}
	fmt.Fprintf(b, "}\n\n// ID is %d, %d.\nfunc (*%s) ID() ID { return ID%s }\n\n", c.Index, m.Index, name, name)
}

// decoder writes Decode. Consecutive bits share octets, the first in the lowest bit.
func decoder(b *bytes.Buffer, c class, m method) {
	name := goName(c.Name, m.Name)
	fmt.Fprintf(b, "// Decode reads the arguments; byte fields are views into b.\nfunc (m *%s) Decode(b []byte) error {\n\td := decoder{b: b}\n", name)
	bits := 0
	for _, f := range m.Fields {
		if f.Type == "bit" {
			if bits%8 == 0 {
				fmt.Fprintf(b, "\td.bits = d.octet()\n")
			}
			if f.Reserved != 1 {
				fmt.Fprintf(b, "\tm.%s = d.bits&%d != 0\n", goName(f.Name), 1<<(bits%8))
			}
			bits++
			continue
		}
		bits = 0
		if f.Reserved == 1 {
			fmt.Fprintf(b, "\td.%s()\n", skipper(f.Type))
			continue
		}
		fmt.Fprintf(b, "\tm.%s = d.%s()\n", goName(f.Name), m.coder(f).decode)
	}
	b.WriteString("\treturn d.end()\n}\n\n")
}

func skipper(typ string) string {
	if typ == "shortstr" {
		return view.decode // a reserved string need not be allocated
	}
	return coders[typ].decode
}

func appender(b *bytes.Buffer, c class, m method) {
	name := goName(c.Name, m.Name)
	receiver := "m "
	if !usesReceiver(m) {
		receiver = ""
	}
	fmt.Fprintf(b, "// Append writes the ids and the arguments behind dst.\nfunc (%s*%s) Append(dst []byte) []byte {\n", receiver, name)
	fmt.Fprintf(b, "\tdst = binary.BigEndian.AppendUint32(dst, uint32(ID%s))\n", name)
	for i := 0; i < len(m.Fields); i++ {
		f := m.Fields[i]
		if f.Type == "bit" {
			i += appendBits(b, m.Fields[i:]) - 1
			continue
		}
		k := m.coder(f)
		value := "m." + goName(f.Name)
		if f.Reserved == 1 {
			value = k.zero
		}
		fmt.Fprintf(b, "\tdst = "+k.append+"\n", value)
	}
	b.WriteString("\treturn dst\n}\n\n")
}

func usesReceiver(m method) bool {
	for _, f := range m.Fields {
		if f.Reserved != 1 {
			return true
		}
	}
	return false
}

// appendBits writes one octet for the run of bits that fields begins with and answers how many bits that were. No
// method has a run of more than eight.
func appendBits(b *bytes.Buffer, fields []field) int {
	b.WriteString("\tdst = append(dst, ")
	n := 0
	for ; n < len(fields) && fields[n].Type == "bit"; n++ {
		if n > 0 {
			b.WriteString("|")
		}
		if fields[n].Reserved == 1 {
			b.WriteString("0")
			continue
		}
		fmt.Fprintf(b, "bit(m.%s, %d)", goName(fields[n].Name), n)
	}
	b.WriteString(")\n")
	return n
}
