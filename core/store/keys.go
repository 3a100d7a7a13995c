package store

import (
	"encoding/binary"

	"github.com/understudy-mq/understudy/core/message"
)

// A key is the group (8 bytes, big endian), a family and the rest:
//
//	m <name>              facts about the group (meta.go)
//	d <generation> s <key>   a row of the machine
//	d <generation> c <loc>   a content that was moved out of the log
//
// All of a group's data carries a generation. A snapshot is staged under the next one, and installing it is a change of
// the current generation in one row: atomic and repeatable at any size.
const (
	familyMeta  = 'm'
	familyData  = 'd'
	kindRow     = 's'
	kindContent = 'c'

	rowPrefixBytes = 8 + 1 + 8 + 1
)

func metaKey(group uint64, name string) []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, 9+len(name)), group)
	return append(append(k, familyMeta), name...)
}

// dataKey is the start of all data of a generation.
func dataKey(group, generation uint64) []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, rowPrefixBytes+8), group)
	return binary.BigEndian.AppendUint64(append(k, familyData), generation)
}

// dataEnd is the end of all data of a group, of all generations.
func dataEnd(group uint64) []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, 9), group)
	return append(k, familyData+1)
}

func rowPrefix(group, generation uint64) []byte { return append(dataKey(group, generation), kindRow) }

func rowEnd(group, generation uint64) []byte { return append(dataKey(group, generation), kindRow+1) }

func contentKey(group, generation uint64, loc message.Loc) []byte {
	return binary.BigEndian.AppendUint64(append(dataKey(group, generation), kindContent), uint64(loc))
}

// contentEnd is the end of a generation's contents.
func contentEnd(group, generation uint64) []byte {
	return append(dataKey(group, generation), kindContent+1)
}

// contentLoc reads a content's key back.
func contentLoc(key []byte) message.Loc {
	return message.Loc(binary.BigEndian.Uint64(key[rowPrefixBytes:]))
}
