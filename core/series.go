package core

import "slices"

// series is objects in the order in which they were made. One that goes stays in the list, marked as gone, unless it is at an end of it, until
// there are many such: so it does not matter where in a million it was, and the order is the same on every replica.
type series[T object] struct {
	list []T
	gone int // of the list
}

// goneMost is how many that are gone may stay in any case.
const goneMost = 64

func (s *series[T]) add(o T) { s.list = append(s.list, o) }

func (s *series[T]) len() int { return len(s.list) - s.gone }

// oldest is the first that is there. There must be one.
func (s *series[T]) oldest() T { return s.list[0] }

// newest is the last that is there. There must be one.
func (s *series[T]) newest() T { return s.list[len(s.list)-1] }

// each visits those that are there. None may go meanwhile.
func (s *series[T]) each(visit func(T)) {
	for _, o := range s.list {
		if !o.state().gone {
			visit(o)
		}
	}
}

// tidy takes note that one more is gone.
func (s *series[T]) tidy() {
	s.gone++
	var none T
	for len(s.list) > 0 && s.newest().state().gone {
		s.list[len(s.list)-1] = none
		s.list = s.list[:len(s.list)-1]
		s.gone--
	}
	for len(s.list) > 0 && s.oldest().state().gone {
		s.list[0] = none
		s.list = s.list[1:]
		s.gone--
	}
	if s.gone > goneMost && s.gone > len(s.list)/2 {
		s.list = slices.DeleteFunc(s.list, func(o T) bool { return o.state().gone })
		s.gone = 0
	}
}
