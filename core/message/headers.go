package message

import "encoding/binary"

// CutHeaders answers a property list without those headers that take wants, and props itself where it wants none. Take is asked
// about each in turn: its key and its value's bytes (Value reads them), which are views. The new list is built behind scratch[:0].
// props must have passed CheckProperties.
func CutHeaders(props, scratch []byte, take func(key, value []byte) bool) []byte {
	start, table := headersAt(props)
	if table == nil {
		return props
	}
	out := append(scratch[:0], props[:start]...)
	s := scanner{b: table, left: TableElementsMax}
	cut := false
	for s.at < len(table) {
		from := s.at
		s.at += 1 + int(table[from])
		key, valueAt := table[from+1:s.at], s.at
		if !s.value(len(table), 1) {
			return props
		}
		if take(key, table[valueAt:s.at]) {
			cut = true
			continue
		}
		out = append(out, table[from:s.at]...)
	}
	if !cut {
		return props
	}
	binary.BigEndian.PutUint32(out[start-4:], uint32(len(out)-start))
	return append(out, props[start+len(table):]...)
}

// headersAt finds the content of a property list's headers table; nil where it has none.
func headersAt(props []byte) (start int, table []byte) {
	w, err := walkProperties(props)
	for err == nil && w.flags >= PropHeaders && w.next(&err) {
		if w.property == PropHeaders {
			return w.at - len(w.value), w.value
		}
	}
	return 0, nil
}

// Value decodes one value of a table, of the types that Table lists. The bytes must be of a table that Check has passed.
func Value(b []byte) any {
	d := decoder{b: b}
	return d.value()
}

// AddHeader answers a property list with one more header, at the end of its headers. props must have passed CheckProperties.
func AddHeader(props []byte, key string, value any) []byte {
	p, err := ParseProperties(props)
	if err != nil {
		return props
	}
	p.Set |= PropHeaders
	p.Headers = AppendTable(p.Headers[:len(p.Headers):len(p.Headers)], Table{{Key: key, Value: value}})
	return AppendProperties(nil, &p)
}
