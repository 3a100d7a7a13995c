package log

const (
	verifiedMax   = 64 // pieces
	verifiedBytes = 8 << 20
)

// verifiedCache keeps the last pieces of entries read from disk and checked, so that who reads messages in order reads each chunk
// once, and so do dozens of readers at different places. Its owner locks it.
type verifiedCache struct {
	pieces []verifiedPiece // a ring, once it has verifiedMax
	newest int
	bytes  int
}

// verifiedPiece is part of an entry's data, from an offset in it.
type verifiedPiece struct {
	index uint64
	from  int
	data  []byte
}

// get answers size bytes at offset of an entry's data if one piece holds them all.
func (c *verifiedCache) get(index uint64, offset, size int) []byte {
	for k := range c.pieces {
		p := &c.pieces[(c.newest-k+len(c.pieces))%len(c.pieces)]
		if p.index == index && offset >= p.from && offset+size <= p.from+len(p.data) {
			return p.data[offset-p.from : offset-p.from+size : offset-p.from+size]
		}
	}
	return nil
}

// leadsTo says whether what comes before an offset has been read: who asks for that now reads in order.
func (c *verifiedCache) leadsTo(index uint64, offset int) bool {
	return offset > 0 && c.get(index, offset-1, 1) != nil
}

// put keeps a piece; the oldest ones go as the bounds demand.
func (c *verifiedCache) put(index uint64, from int, data []byte) {
	if len(data) > verifiedBytes/4 {
		return
	}
	if len(c.pieces) < verifiedMax {
		c.pieces = append(c.pieces, verifiedPiece{})
		c.newest = len(c.pieces) - 1
	} else {
		c.newest = (c.newest + 1) % verifiedMax
	}
	c.bytes += len(data) - len(c.pieces[c.newest].data)
	c.pieces[c.newest] = verifiedPiece{index, from, data}
	for k := 1; c.bytes > verifiedBytes; k++ {
		p := &c.pieces[(c.newest+k)%len(c.pieces)]
		c.bytes -= len(p.data)
		*p = verifiedPiece{}
	}
}

func (c *verifiedCache) clear() { *c = verifiedCache{} }
