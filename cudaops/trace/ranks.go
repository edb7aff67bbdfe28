package trace

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Align compares the ranks of one run and sets WaitNs and Imbalance of each compared result. The i-th collective of a
// kind and group on one rank corresponds to the i-th on the others. A kernel's time includes waiting for
// the last rank, so the time beyond that of the fastest rank is waiting. Clocks of different hosts are not
// compared.
//
// If a trace contains the process groups of collectives, the ranks of each group are compared. Otherwise
// the ranks of one pipeline stage of one replica are compared if the file names contain them, else all
// files. Sends and receives are ignored, because their counterpart has a different kind.
//
// The note explains why ranks could not be compared, or which ranks are missing. It is "" otherwise.
func Align(results []*Analysis) (note string) {
	var with []*Analysis
	for _, r := range results {
		if r.Kernels > 0 {
			with = append(with, r)
		}
	}

	if len(with) < 2 {
		return ""
	}

	oneWorld := true
	seen, placed := map[rankKey]*Analysis{}, map[rankKey]*Analysis{}
	for _, r := range with {
		if r.Rank == nil {
			continue
		}
		k := rankKey{rank: *r.Rank, device: r.Device}
		if seen[k] != nil {
			oneWorld = false
		}
		seen[k] = r
		k.place = placeOf(r.File)
		if other := placed[k]; other != nil {
			return fmt.Sprintf("ranks were not compared: %s and %s are both of rank %d", other.File, r.File, *r.Rank)
		}
		placed[k] = r
	}

	balance(with)
	members := map[meeting][]*Analysis{}
	for _, r := range with {
		for k := range r.calls {
			m := meeting{callKey: k}
			if k.group == "" || !oneWorld {
				m.place = placeOf(r.File)
			}
			members[m] = append(members[m], r)
		}
	}

	byPlace := map[string][]*Analysis{}
	for _, r := range with {
		byPlace[placeOf(r.File)] = append(byPlace[placeOf(r.File)], r)
	}

	waits := map[*Analysis]int64{}
	meetings := slices.SortedFunc(maps.Keys(members), func(a, b meeting) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.group, b.group), cmp.Compare(a.place, b.place))
	})

	compared := false
	for _, m := range meetings {
		ranks := members[m]
		if m.group == "" { // a rank without such calls must be detected too
			ranks = byPlace[m.place]
		}
		if m.kind == sendRecv {
			continue
		}
		if note := m.count(ranks, waits); note != "" {
			return note
		}
		compared = true
	}

	if compared && len(waits) == 0 {
		return "ranks were not compared: no two of them have a group of collectives in common; are these files of one run?"
	}

	for r, w := range waits {
		r.WaitNs = &w
	}

	return missing(with, oneWorld)
}

// balance sets the ratio of the largest to the smallest busy time. It is unknown if a trace is truncated.
func balance(ranks []*Analysis) {
	lowest, highest := int64(math.MaxInt64), int64(0)
	for _, r := range ranks {
		if r.BusyNs == nil || r.Truncated {
			return
		}
		lowest, highest = min(lowest, *r.BusyNs), max(highest, *r.BusyNs)
	}

	if lowest == 0 {
		return
	}
	ratio := float64(highest) / float64(lowest)
	for _, r := range ranks {
		r.Imbalance = &ratio
	}
}

// sendRecv is the kind of point-to-point calls.
const sendRecv = "send_recv"

// rankKey is the origin of a result.
type rankKey struct {
	rank          int
	device, place string
}

// meeting identifies calls that ranks make together.
type meeting struct {
	callKey
	place string // "" if all ranks may take part
}

// count adds to waits how much longer the calls of a meeting took on each rank than on the fastest. The
// note is not empty if the numbers of calls differ.
func (m meeting) count(ranks []*Analysis, waits map[*Analysis]int64) (note string) {
	if len(ranks) < 2 {
		return ""
	}

	first := ranks[0].calls[m.callKey]
	for _, r := range ranks[1:] {
		if n := len(r.calls[m.callKey]); n != len(first) {
			return fmt.Sprintf("ranks were not compared: %s has %d %s, %s has %d; are these files of one run?",
				ranks[0].File, len(first), m.kind, r.File, n)
		}
	}

	for c := range first {
		quickest := first[c]
		for _, r := range ranks {
			quickest = min(quickest, r.calls[m.callKey][c])
		}
		for _, r := range ranks {
			waits[r] = plus(waits[r], r.calls[m.callKey][c]-quickest)
		}
	}

	return ""
}

// missing returns a note about ranks without a trace. It returns "" if there are none or the world size is
// unknown.
func missing(results []*Analysis, oneWorld bool) string {
	have := map[int]bool{}
	world := 0

	for _, r := range results {
		if r.Rank == nil || r.WorldSize == nil || world != 0 && *r.WorldSize != world {
			return ""
		}
		have[*r.Rank], world = true, *r.WorldSize
	}

	if !oneWorld || len(have) >= world {
		return ""
	}

	const most = 8
	var gone []string
	for n := 0; n < world && len(gone) <= most; n++ {
		if !have[n] {
			gone = append(gone, fmt.Sprint(n))
		}
	}

	if len(gone) > most {
		gone[most] = "..."
	}

	return fmt.Sprintf("there are traces of %d of %d ranks (missing: %s); waiting is relative to the others",
		len(have), world, strings.Join(gone, ", "))
}

// placePattern matches vLLM's notation of replica and pipeline stage in file names.
var placePattern = regexp.MustCompile(`(?:^|_)dp(\d+)_pp(\d+)_`)

// placeOf returns the replica and pipeline stage in a file name, or "".
func placeOf(file string) string {
	return strings.Trim(placePattern.FindString(filepath.Base(file)), "_")
}
