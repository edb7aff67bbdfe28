package load

import (
	"context"
	"math"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/workload"
)

// interrupted is the reason of a load that the user ended.
const interrupted = "interrupted"

// endEarly ends the phase: no further request is sent, and open requests are cut after grace. Only the first call has
// an effect.
func (p *phase) endEarly(reason string, grace time.Duration) {
	if !p.endedBy.CompareAndSwap(nil, &reason) {
		return
	}

	p.endedAt.Store(p.r.now())
	p.cutoff()
	if grace <= 0 {
		p.abort()
		return
	}
	time.AfterFunc(grace, p.abort)
}

// reason returns the name of the setting that ended the phase.
func (p *phase) reason(replay bool) string {
	switch by := p.endedBy.Load(); {
	case by != nil:
		return *by
	case p.requests > 0 && p.issued.Load() >= p.requests:
		return "requests"
	case p.r.settings.Sessions > 0 && !replay:
		return "sessions"
	case p.r.settings.Dataset != "":
		return "dataset"
	}
	return "trace"
}

// failureLimits counts the failed requests of a phase.
type failureLimits struct{ requests, failed, consecutive int }

// minJudged is the number of requests from which the share of failed requests is judged.
const minJudged = 20

// exceeded adds a request and returns the name of a limit that is exceeded, or "".
func (f *failureLimits) exceeded(s *Settings, rec *aiperf.Record) string {
	if rec.Cut || rec.Cancelled {
		return ""
	}

	f.requests++
	f.consecutive++
	if rec.Err == nil {
		f.consecutive = 0
	} else {
		f.failed++
	}

	switch {
	case s.MaxErrors > 0 && f.failed >= s.MaxErrors:
		return "max_errors"
	case s.MaxErrorRate > 0 && f.requests >= minJudged && float64(f.failed) > s.MaxErrorRate*float64(f.requests):
		return "max_error_rate"
	case s.MaxConsecutiveErrors > 0 && f.consecutive >= s.MaxConsecutiveErrors:
		return "max_consecutive_errors"
	}
	return ""
}

// arrivals returns the arrival process of the phase.
func (p *phase) arrivals() workload.Arrivals {
	s := &p.r.settings
	a := workload.Arrivals{Pattern: s.Arrival, Rate: s.RequestRate, Smoothness: s.Smoothness, Ramp: seconds(s.RateRamp),
		Seed: s.Seed ^ p.r.options.Salt}
	if s.Users > 0 {
		a.Pattern = workload.Constant // their turns are evenly spaced
	}
	return a
}

// watchQueue ends the phase if the number of unanswered requests grows for the seconds of over_saturation. It draws the
// arrivals a second time, because the sender draws none while it waits for concurrency. The returned function ends the
// check.
func (p *phase) watchQueue(ctx context.Context, from int64) (stop func()) {
	s := &p.r.settings
	window := max(3, int(math.Ceil(s.OverSaturation)))
	schedule := workload.NewSchedule(p.arrivals())
	next, due := schedule.Next(), int64(0)
	var waiting []float64 // requests that are due and have not ended, each second
	return p.r.every(ctx, time.Second, func(context.Context) {
		elapsed := time.Duration(p.r.now() - from)
		for ; next <= elapsed && (p.requests == 0 || due < p.requests); next = schedule.Next() {
			due++
		}
		if elapsed < seconds(s.RateRamp) {
			return
		}

		p.r.mu.Lock()
		waiting = append(waiting, float64(due-p.unused.Load()-p.r.ended.succeeded-p.r.ended.failed))
		p.r.mu.Unlock()
		if n := len(waiting); n > window && grows(waiting[n-window-1:], s.RequestRate*float64(window)) {
			p.endEarly("over_saturation", 0)
		}
	})
}

// grows reports whether a queue grows: each third of the time has more waiting requests than the one before, the
// increase is above what random arrivals cause, and the last third has a part of it, unlike at the begin of a load with
// long responses. arrivals is the expected number of arrivals.
func grows(waiting []float64, arrivals float64) bool {
	third := len(waiting) / 3
	mean := func(part []float64) float64 {
		sum := 0.0
		for _, v := range part {
			sum += v
		}
		return sum / float64(len(part))
	}

	first, last := waiting[0], waiting[len(waiting)-1]
	late := last - waiting[len(waiting)-1-third]
	a, b, c := mean(waiting[:third]), mean(waiting[third:2*third]), mean(waiting[2*third:])
	return a < b && b < c && late > (last-first)/6 && last-first > max(10, 3*math.Sqrt(arrivals), 0.05*arrivals)
}
