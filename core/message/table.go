package message

// Table is a decoded field table, in the order of its bytes.
//
// Values are Go's bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float32, float64, Decimal, string (longstr), Timestamp,
// []byte (byte array 'x'), []any (array), Table and nil (void).
type Table []Field

// Field is one entry of a Table.
type Field struct {
	Key   string
	Value any
}

// Timestamp is seconds since 1970, as a table carries it.
type Timestamp uint64

// Decimal is Value / 10^Scale.
type Decimal struct {
	Scale uint8
	Value int32
}
