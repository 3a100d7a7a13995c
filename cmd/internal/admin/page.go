package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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

// list answers rows as the query asks: filtered by name and cut into pages (page, page_size, name, use_regex), sorted
// (sort, sort_reverse) and with chosen fields (columns). Without page the answer is the bare list.
func list[T any](w http.ResponseWriter, r *http.Request, rows []T, name func(T) string) {
	listMade(w, r.URL.Query(), rows, name, func(rows []T) []T { return rows })
}

// listMade is list of rows that are made of keys: unless the query has them sorted, of those of the page alone.
func listMade[K, T any](w http.ResponseWriter, q url.Values, keys []K, name func(K) string, rows func([]K) []T) {
	if q.Get("page") == "" {
		if items, ok := shape(w, rows(keys), q); ok {
			answer(w, http.StatusOK, items)
		}
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
	page.TotalCount = total
	sorted := q.Get("sort") != ""
	if !sorted {
		keys = keys[from : from+page.ItemCount]
	}
	items, ok := shape(w, rows(keys), q)
	if !ok {
		return
	}
	if sorted {
		items = items[min(from, len(items)):min(from+page.ItemCount, len(items))] // a row may have gone meanwhile
	}
	page.Items, page.ItemCount = items, len(items)
	answer(w, http.StatusOK, page)
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

// shape sorts rows and picks columns; as they are if neither is asked for. false: it has answered the caller.
func shape[T any](w http.ResponseWriter, rows []T, q url.Values) ([]any, bool) {
	out, err := shaped(rows, q)
	if err != nil {
		fail(w, http.StatusBadRequest, "bad_request", err.Error())
	}
	return out, err == nil
}

func shaped[T any](rows []T, q url.Values) ([]any, error) {
	out := make([]any, len(rows))
	by, columns := q.Get("sort"), q.Get("columns")
	if by == "" && columns == "" {
		for i := range rows {
			out[i] = rows[i]
		}
		return out, nil
	}
	objects := make([]map[string]any, len(rows))
	for i := range rows {
		b, err := json.Marshal(rows[i])
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &objects[i]); err != nil {
			return nil, err
		}
	}
	if by != "" {
		order := orderOf(q)
		slices.SortStableFunc(objects, func(a, b map[string]any) int {
			return order * compare(field(a, by), field(b, by))
		})
	}
	for i, o := range objects {
		out[i] = pick(o, columns)
	}
	return out, nil
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

func compare(a, b any) int {
	x, xNumber := a.(float64)
	y, yNumber := b.(float64)
	if xNumber && yNumber {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
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
