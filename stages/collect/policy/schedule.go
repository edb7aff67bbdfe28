package policy

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
)

// Cases are the numbered cases of a schedule, and where its decisions go.
type Cases struct {
	// Order lists the cases to try.
	Order []int
	// Group returns the group of a case. Groups and Past describe the groups.
	Group  func(no int) int
	Groups []string
	Past   []Past
	// Seconds are durations of earlier cases.
	Seconds []float64
	// Skip is called for a case that is not tried.
	Skip func(no int, class, reason string)
	// Note shows a line to the user.
	Note func(level, format string, args ...any)
}

// Schedule hands out cases sample by sample of the ramp. It is not safe for concurrent use.
type Schedule struct {
	Deadlines
	// Stopped is why the ramp stopped, or "".
	Stopped string

	cases   Cases
	breaker *Breaker
	rungs   [][]int // remaining, the next one first
	rung    int     // number of the current one
	total   int     // of rungs
	queue   []int   // cases of the current rung
	held    [][]int // cases of the current rung that wait for room, by group
	out     int     // handed out and not ended

	size, failed, done int // cases of the current rung
}

// NewSchedule returns a schedule. The seed draws the samples.
func NewSchedule(l *Limits, c Cases, seed int64) *Schedule {
	s := &Schedule{Deadlines: Deadlines{limits: l}, cases: c, breaker: NewBreaker(l.TripAfter, c.Groups, c.Past),
		rungs: rungs(c.Order, l.Ramp, seed), held: make([][]int, len(c.Groups))}
	s.total = len(s.rungs)
	for _, seconds := range c.Seconds {
		s.Add(seconds)
	}
	s.nextRung()
	return s
}

// Pending returns how many cases Next can return at most, and more than zero only if it can return one. It ends
// the current sample if all its cases have ended.
func (s *Schedule) Pending() int {
	s.trim()
	if len(s.queue) > 0 && s.rung < s.total && float64(s.failed) > maxFailed*float64(s.size) {
		s.rungs, s.queue = slices.Insert(s.rungs, 0, s.queue), nil // the sample cannot pass any more
	}
	for len(s.queue)+s.out == 0 && len(s.rungs) > 0 {
		s.endRung()
	}

	room := 0
	for i := range s.breaker.groups {
		g := &s.breaker.groups[i]
		if g.tripped != "" {
			continue
		}
		if more := s.breaker.room(g); more < len(s.queue)-room {
			room += more
		} else {
			return len(s.queue)
		}
	}
	return room
}

// Next hands out a case. Pending must have returned more than zero.
func (s *Schedule) Next() int {
	no := s.queue[0]
	s.queue = s.queue[1:]
	s.out++
	s.breaker.groups[s.cases.Group(no)].out++
	return no
}

// Measured records that a case has rows, and its duration. The case ends with End.
func (s *Schedule) Measured(no int, seconds float64) {
	s.Add(seconds)
	s.breaker.Measured(s.cases.Group(no))
}

// End ends a case that was handed out. failure is the message if it failed, or a part of it. partly is true if other
// parts of the case are measured.
func (s *Schedule) End(no int, failure string, partly bool) {
	s.out--
	s.done++
	at := s.cases.Group(no)
	g := &s.breaker.groups[at]
	g.out--

	if failure != "" {
		if !partly {
			s.failed++
		}
		if tripped := s.breaker.Failed(at, failure); tripped != "" {
			s.cases.Note("error", "breaker: %s", tripped)
		}
	}

	n := len(s.held[at])
	if g.tripped == "" {
		n = min(n, s.breaker.room(g))
	}
	if n > 0 {
		s.queue = slices.Concat(s.held[at][:n], s.queue)
		s.held[at] = s.held[at][n:]
	}
}

// nextRung starts the next rung that has cases.
func (s *Schedule) nextRung() {
	for len(s.rungs) > 0 && len(s.queue) == 0 {
		s.queue, s.rungs = s.rungs[0], s.rungs[1:]
		s.rung++
		s.size, s.failed, s.done = len(s.queue), 0, 0
		if s.rung < s.total && len(s.queue) > 0 {
			s.cases.Note("info", "rung %d of %d: a sample of %d cases", s.rung, s.total, len(s.queue))
		}
	}
}

// trim removes cases from the head of the queue that cannot be handed out now. Cases of stopped groups are skipped;
// cases of groups without room wait.
func (s *Schedule) trim() {
	for len(s.queue) > 0 {
		no := s.queue[0]
		at := s.cases.Group(no)
		switch g := &s.breaker.groups[at]; {
		case g.tripped != "":
			s.cases.Skip(no, "tripped", g.tripped)
		case s.breaker.room(g) == 0:
			s.held[at] = append(s.held[at], no)
		default:
			return
		}
		s.queue = s.queue[1:]
	}
}

// endRung judges the finished rung and starts the next one, or stops the ramp.
func (s *Schedule) endRung() {
	why := s.rungProblem()
	if why == "" {
		s.nextRung()
		s.trim()
		return
	}

	s.Stopped = fmt.Sprintf("rung %d of %d did not pass: %s", s.rung, s.total, why)
	s.cases.Note("error", "ramp: %s", s.Stopped)
	for _, no := range slices.Concat(s.rungs...) {
		s.cases.Skip(no, "ramp", s.Stopped)
	}
	s.rungs = nil
}

// A sample fails if more than a share of its cases failed, or if so many cases of one group failed and none of the
// group is measured.
const (
	maxFailed     = 0.5
	groupFailures = 2
)

// rungProblem returns why the finished rung fails, or "" if it passes.
func (s *Schedule) rungProblem() string {
	if s.done == 0 {
		return ""
	}
	if float64(s.failed) > maxFailed*float64(s.done) {
		return fmt.Sprintf("%d of %d cases failed, more than the %.0f %% that are allowed", s.failed, s.done,
			100*maxFailed)
	}

	worst := -1 // the first name, so that the message is deterministic
	for i, g := range s.breaker.groups {
		if g.measured == 0 && g.failures >= groupFailures && (worst < 0 || s.cases.Groups[i] < s.cases.Groups[worst]) {
			worst = i
		}
	}
	if worst < 0 {
		return ""
	}
	g := s.breaker.groups[worst]
	return fmt.Sprintf("all %d cases of %s failed; the last time: %s", g.failures, groupText(s.cases.Groups[worst]),
		g.last)
}

// rungs splits cases into the samples of the ramp and the remaining cases. The samples are random. The order within
// each part is unchanged.
func rungs(order, sizes []int, seed int64) [][]int {
	perm := Random(seed, "ramp").Perm(len(order))
	rungOf := make([]int, len(order)) // 0 for the rest
	out := [][]int{nil}
	done := 0
	for _, size := range sizes {
		if size <= done || size >= len(order) {
			continue
		}
		for _, at := range perm[done:size] {
			rungOf[at] = len(out)
		}
		done = size
		out = append(out, nil)
	}

	for at, no := range order {
		out[rungOf[at]] = append(out[rungOf[at]], no)
	}
	return append(out[1:], out[0])
}

// Random returns a random generator for one purpose, derived from the seed.
func Random(seed int64, purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, purpose)
	return rand.New(rand.NewPCG(uint64(seed), h.Sum64()))
}
