package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// Sizes of a page, as RabbitMQ has them.
const (
	pageSizeDefault = 100
	pageSizeMax     = 500
)

// filterBytesMax bounds the pattern of a filter, whose matcher takes memory by its length. Matching takes time in proportion to
// the name, whatever the pattern.
const filterBytesMax = 1000

// rowsOf makes rows of keys as they are asked for, each with its key's place. A key of which there is nothing any more has none.
type rowsOf[K, T any] func(keys []K) iter.Seq2[int, T]

// list answers rows as the query asks: filtered by name and cut into pages (page, page_size, name, use_regex), sorted
// (sort, sort_reverse) and with chosen fields (columns). Without page the answer is the bare list.
func list[T any](w http.ResponseWriter, r *http.Request, rows []T, name func(T) string) {
	listMade(w, r.URL.Query(), rows, name, func(rows []T) iter.Seq2[int, T] { return slices.All(rows) })
}

// listMade is list of rows that are made of keys, of one at a time: however many there are, no more than a page of them is held.
// Rows that are sorted by what only they know are made twice.
func listMade[K, T any](w http.ResponseWriter, q url.Values, keys []K, name func(K) string, rows rowsOf[K, T]) {
	if q.Get("page") == "" {
		answerRows(w, rows(sorted(keys, rows, q)), q.Get("columns"))
		return
	}
	match, err := matcher(q)
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_regex", err.Error())
		return
	}
	total := len(keys)
	keys = slices.DeleteFunc(slices.Clone(keys), func(key K) bool { return !match(name(key)) })
	page, from, err := cut(len(keys), q)
	if err != nil {
		fail(w, http.StatusBadRequest, "page_out_of_range", err.Error())
		return
	}
	to := from + page.ItemCount
	keys = sorted(keys, rows, q)
	keys = keys[min(from, len(keys)):min(to, len(keys))] // one may have gone meanwhile
	items := make([]any, 0, len(keys))
	for _, row := range rows(keys) {
		item, err := chosen(row, q.Get("columns"))
		if err != nil {
			fail(w, http.StatusBadRequest, "bad_request", err.Error())
			return
		}
		items = append(items, item)
	}
	page.TotalCount, page.Items, page.ItemCount = total, items, len(items)
	answer(w, http.StatusOK, page)
}

// answerRows answers the list of rows, encoding one at a time. One that JSON cannot say ends the answer, and spoils it.
func answerRows[T any](w http.ResponseWriter, rows iter.Seq2[int, T], columns string) {
	begin(w, http.StatusOK)
	out := bufio.NewWriterSize(w, answerBytes)
	var one bytes.Buffer
	encoder := json.NewEncoder(&one)
	ahead := "["
	for _, row := range rows {
		item, err := chosen(row, columns)
		one.Reset()
		if err != nil || encoder.Encode(item) != nil {
			return
		}
		_, _ = out.WriteString(ahead) // an error is out's from then on
		if _, err := out.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n"))); err != nil {
			return // the caller is gone
		}
		ahead = ","
	}
	if ahead == "[" {
		_, _ = out.WriteString(ahead)
	}
	_, _ = out.WriteString("]\n")
	_ = out.Flush()
}

// matcher is the filter that name and use_regex ask for.
func matcher(q url.Values) (func(string) bool, error) {
	name := q.Get("name")
	switch {
	case name == "":
		return func(string) bool { return true }, nil
	case len(name) > filterBytesMax:
		return nil, fmt.Errorf("name has %d bytes, at most %d are allowed", len(name), filterBytesMax)
	case q.Get("use_regex") == "true":
		re, err := regexp.Compile(name)
		if err != nil {
			return nil, err
		}
		return re.MatchString, nil
	}
	name = strings.ToLower(name)
	return func(s string) bool { return strings.Contains(strings.ToLower(s), name) }, nil
}

// chosen picks columns of a row, names with commas between them; "" leaves it as it is.
func chosen[T any](row T, columns string) (any, error) {
	if columns == "" {
		return row, nil
	}
	b, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(b, &object); err != nil {
		return nil, err
	}
	return pick(object, columns), nil
}

// sorted sorts keys by the field of their rows that the query names, if it does; keys without a row are left out then.
func sorted[K, T any](keys []K, rows rowsOf[K, T], q url.Values) []K {
	by := q.Get("sort")
	if by == "" {
		return keys
	}
	type place struct {
		value any
		key   int
	}
	list := make([]place, 0, len(keys))
	found := members{}
	for i, row := range rows(keys) {
		list = append(list, place{found.read(reflect.ValueOf(row), by), i})
	}
	order := orderOf(q)
	slices.SortStableFunc(list, func(a, b place) int { return order * compare(a.value, b.value) })
	inOrder := make([]K, len(list))
	for i, p := range list {
		inOrder[i] = keys[p.key]
	}
	return inOrder
}

// members are the fields of types by their names in JSON, those that were asked for.
type members map[reflect.Type]map[string][]int

// read reads what a dotted path names in JSON off the value itself: to encode 100,000 rows for one number of each would take
// longer than all else. Numbers are float64s.
func (m members) read(v reflect.Value, path string) any {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	if path == "" {
		return plain(v)
	}
	name, rest, _ := strings.Cut(path, ".")
	switch {
	case v.IsValid() && v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		return m.read(v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())), rest)
	case v.IsValid() && v.Kind() == reflect.Struct:
		if at := m.find(v.Type(), name); at != nil {
			return m.read(v.FieldByIndex(at), rest)
		}
	}
	return nil
}

// find answers a field's index, nil for none.
func (m members) find(t reflect.Type, name string) []int {
	if m[t] == nil {
		m[t] = map[string][]int{}
	}
	at, known := m[t][name]
	if !known {
		for _, f := range reflect.VisibleFields(t) {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && f.IsExported() {
				at = f.Index
				break
			}
		}
		m[t][name] = at
	}
	return at
}

func plain(v reflect.Value) any {
	switch {
	case !v.IsValid():
		return nil
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float()
	}
	return v.Interface()
}

// orderOf is -1 where the query wants a reverse order, else 1.
func orderOf(q url.Values) int {
	if q.Get("sort_reverse") == "true" {
		return -1
	}
	return 1
}

// field reads a dotted path.
func field(o map[string]any, path string) any {
	for {
		head, rest, deeper := strings.Cut(path, ".")
		if !deeper {
			return o[head]
		}
		inner, ok := o[head].(map[string]any)
		if !ok {
			return nil
		}
		o, path = inner, rest
	}
}

// compare orders numbers by size and all else as text; what a row lacks comes before that.
func compare(a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(order(a), order(b))
	}
	x, xNumber := a.(float64)
	y, yNumber := b.(float64)
	if xNumber && yNumber {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

func order(v any) int {
	if v == nil {
		return 0
	}
	return 1
}

func pick(o map[string]any, columns string) map[string]any {
	if columns == "" {
		return o
	}
	out := make(map[string]any)
	for _, c := range strings.Split(columns, ",") {
		if v := field(o, c); v != nil {
			put(out, c, v)
		}
	}
	return out
}

// put sets a dotted path.
func put(o map[string]any, path string, v any) {
	head, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		o[head] = v
		return
	}
	inner, ok := o[head].(map[string]any)
	if !ok {
		inner = make(map[string]any)
		o[head] = inner
	}
	put(inner, rest, v)
}

// cut answers the page of so many rows that q asks for, and which row is its first.
func cut(rows int, q url.Values) (p api.Page, from int, err error) {
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil || page < 1 {
		return p, 0, fmt.Errorf("page %q is no number from 1 on", q.Get("page"))
	}
	size := pageSizeDefault
	if s := q.Get("page_size"); s != "" {
		if size, err = strconv.Atoi(s); err != nil || size < 1 || size > pageSizeMax {
			return p, 0, fmt.Errorf("page_size %q is not from 1 to %d", s, pageSizeMax)
		}
	}
	count := max(1, (rows+size-1)/size)
	if page > count {
		return p, 0, fmt.Errorf("page %d of %d: page_size %d, %d rows", page, count, size, rows)
	}
	from = (page - 1) * size
	return api.Page{FilteredCount: rows, ItemCount: min(size, rows-from), Page: page, PageCount: count, PageSize: size}, from, nil
}
