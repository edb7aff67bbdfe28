package gate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/rules"
)

// finding is the result of a check: whether the limit was met, and for how much of the data.
type finding struct {
	ok                bool
	message           string
	value, limit, fix string
	rows              []string
	total             int // rows or cases to judge
	left              leftover
	// definite findings count regardless of how many rows were judged: they concern the data as a whole.
	definite bool
	// skip marks a check that does not apply to the data.
	skip bool
	// detail is stored for reports; nil if there is none.
	detail any
}

// leftover counts the rows that a check could not judge, by reason.
type leftover struct {
	why  map[string]int
	rows []rules.Offence
}

func (l *leftover) add(n int, why string) {
	if n <= 0 {
		return
	}
	if l.why == nil {
		l.why = map[string]int{}
	}
	l.why[why] += n
}

// row records one row of the subject as unjudged.
func (l *leftover) row(i int, why string) {
	l.add(1, why)
	if len(l.rows) < maxRows {
		l.rows = append(l.rows, rules.Offence{Row: i, Note: "(not judged: " + why + ")"})
	}
}

func (l *leftover) count() int {
	n := 0
	for _, k := range l.why {
		n += k
	}
	return n
}

// text lists the reasons, the most frequent first.
func (l *leftover) text() string {
	names := byCount(l.why)
	for i, w := range names {
		if len(names) > 1 {
			names[i] = fmt.Sprintf("%s (%d)", w, l.why[w])
		}
	}
	return strings.Join(names, ", ")
}

// byCount returns the keys of a map, the largest value first.
func byCount[N cmp.Ordered](m map[string]N) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
}

func countsText(m map[string]int) string {
	names := byCount(m)
	for i, k := range names {
		names[i] = fmt.Sprintf("%d %s", m[k], k)
	}
	return strings.Join(names, ", ")
}

// failed returns the finding for data that lacks what the check needs.
func failed(message string) finding { return finding{message: message, definite: true} }

// cannot returns the finding of a check that cannot judge any row.
func (s *subject) cannot(why string) finding {
	v := finding{message: why, total: s.rows()}
	v.left.add(s.rows(), why)
	return v
}

// settle converts a finding into a result. A limit that is met by the judged rows proves nothing about
// the others, so the check passes only if at least min_judged of the rows were judged.
func (e entry) settle(s *subject, v finding) stage.CheckResult {
	judged := v.total - v.left.count()
	res := stage.CheckResult{Name: e.name, Severity: e.severity, Message: v.message, Value: v.value,
		Limit: v.limit, Fix: v.fix, Rows: v.rows,
		Extent: &stage.Extent{Judged: judged, Total: v.total, Unjudged: v.left.why}}
	if v.detail != nil {
		// A detail that cannot be encoded, such as one with an infinite number, is dropped.
		res.Detail, _ = json.Marshal(v.detail)
	}

	broken := ResultFail
	if e.severity == SeverityWarn {
		broken = ResultWarn
	}

	const share = 1e-9 // fraction of a row, tolerance for shares that are not exact in binary
	enough := judged > 0 && float64(judged) >= e.minJudged*float64(v.total)-share
	switch {
	case v.skip:
		res.Result = ResultSkip
		return res
	case v.definite && !v.ok, judged > 0 && !v.ok:
		res.Result = broken
	case v.definite || enough:
		res.Result = ResultPass
	case judged == 0 && e.minJudged == 0:
		res.Result = ResultSkip
	default:
		res.Result = broken
	}

	switch {
	case judged > 0 && v.left.count() > 0:
		res.Message += fmt.Sprintf("; %d of %d could not be judged: %s", v.left.count(), v.total, v.left.text())
	case judged == 0 && !v.definite && v.total > 0:
		res.Message = fmt.Sprintf("none of %d could be judged: %s", v.total, v.left.text())
		res.Value = ""
	case judged == 0 && !v.definite:
		res.Message = cmp.Or(v.message, "there are no rows to judge")
		res.Value = ""
	}

	if !enough && !v.definite && res.Result != ResultSkip {
		res.Rows = append(res.Rows, s.worst(v.left.rows)...)
		if res.Fix == "" {
			res.Fix = "min_judged = 0 accepts rows that cannot be judged"
		}
	}

	if len(res.Rows) > maxRows {
		res.Rows = res.Rows[:maxRows]
	}

	return res
}
