package route

import (
	"bytes"
	"strings"
)

// node is a place in the trie of a topic exchange's patterns: where one is after the words on the way from the root. '*'
// is one word, '#' any number of them; words lie between dots and may be empty; the empty key has no words.
type node struct {
	bucket bucket // bindings whose pattern ends here
	words  map[string]*node
	star   *node
	hash   *node
	isHash bool // one stays here whatever word comes
	parent *node
	word   string // the way here from parent
	step   uint64 // the last step of a walk that came by
}

// insert answers the place of a pattern, made if need be.
func (n *node) insert(pattern string) *node {
	for _, w := range normal(pattern) {
		n = n.child(w)
	}
	return n
}

func (n *node) child(word string) *node {
	at := &n.star
	switch word {
	case "*":
	case "#":
		at = &n.hash
	default:
		c := n.words[word]
		if c == nil {
			if n.words == nil {
				n.words = make(map[string]*node)
			}
			c = &node{parent: n, word: word}
			n.words[word] = c
		}
		return c
	}
	if *at == nil {
		*at = &node{parent: n, word: word, isHash: word == "#"}
	}
	return *at
}

// prune removes n and those above it that lead nowhere any more.
func (n *node) prune() {
	for n.parent != nil && len(n.bucket.list) == 0 && len(n.words) == 0 && n.star == nil && n.hash == nil {
		up := n.parent
		switch n {
		case up.star:
			up.star = nil
		case up.hash:
			up.hash = nil
		default:
			delete(up.words, n.word)
		}
		n = up
	}
}

// normal splits a pattern into words, and writes each run of wildcards that has a '#' as its stars and one '#' behind
// them. The meaning is the same; "#.#.#" and the like become one place in the trie rather than many that are all tried.
func normal(pattern string) []string {
	if pattern == "" {
		return nil
	}
	words := strings.Split(pattern, ".")
	out, hash := words[:0], false
	for _, w := range words {
		if w == "#" {
			hash = true
			continue
		}
		if hash && w != "*" {
			out, hash = append(out, "#"), false
		}
		out = append(out, w)
	}
	if hash {
		out = append(out, "#")
	}
	return out
}

// topicWalk follows all patterns at once, word by word: its work is at most the nodes that match a beginning of the key,
// for each word of it. The slices are kept for the next walk.
type topicWalk struct {
	here, next []*node
	step       uint64
}

// match answers the nodes whose patterns match key. The slice is good until the next call.
func (t *topicWalk) match(root *node, key []byte) []*node {
	t.next = t.next[:0]
	t.step++
	t.enter(root)
	t.here, t.next = t.next, t.here[:0]
	for more := len(key) > 0; more; {
		var word []byte
		word, key, more = bytes.Cut(key, dot)
		t.step++
		for _, n := range t.here {
			t.advance(n, word)
		}
		t.here, t.next = t.next, t.here[:0]
	}
	return t.here
}

var dot = []byte{'.'}

func (t *topicWalk) advance(n *node, word []byte) {
	if n.isHash {
		t.enter(n)
	}
	t.enter(n.star)
	t.enter(n.words[string(word)])
}

// enter adds n, and what a '#' that takes no word leads to from it.
func (t *topicWalk) enter(n *node) {
	for ; n != nil && n.step != t.step; n = n.hash {
		n.step = t.step
		t.next = append(t.next, n)
	}
}
