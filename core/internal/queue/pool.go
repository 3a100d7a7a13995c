package queue

// ChunkRefs is the most references that a chunk holds.
const ChunkRefs = 512

// classes are the capacities that chunks come in: a queue of three messages must not cost what one of millions does.
var classes = [...]int{16, 128, ChunkRefs}

// pooledMost bounds the idle chunks that a Pool keeps per class.
const pooledMost = 256

// Ref refers to one ready message. It has no pointers, so that the garbage collector never looks at millions of them.
type Ref struct {
	Number uint64 // vhost-wide message number; never 0
	Loc    uint64 // a message.Loc: where the record lies on this node
	Size   uint32 // of the record, in bytes
	Flags  uint32 // the machine's
}

type chunk struct {
	id     uint32
	start  int // refs[:start] are consumed, or free for what returns
	stored bool
	dirty  bool
	refs   []Ref
}

func (c *chunk) live() []Ref { return c.refs[c.start:] }

// Pool recycles chunks between the lists of one machine.
type Pool struct {
	free  [len(classes)][]*chunk
	notes []*noteChunk
}

// get answers an empty chunk with room for at least want references, or as many as a chunk may hold.
func (p *Pool) get(want int) *chunk {
	k := 0
	for k < len(classes)-1 && classes[k] < want {
		k++
	}
	if n := len(p.free[k]); n > 0 {
		c := p.free[k][n-1]
		p.free[k] = p.free[k][:n-1]
		return c
	}
	return &chunk{refs: make([]Ref, 0, classes[k])}
}

func (p *Pool) put(c *chunk) {
	for k, n := range classes {
		if cap(c.refs) == n && len(p.free[k]) < pooledMost {
			*c = chunk{refs: c.refs[:0]}
			p.free[k] = append(p.free[k], c)
			return
		}
	}
}
