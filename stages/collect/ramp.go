package collect

import (
	"fmt"
	"math"
	"slices"
)

// nextRung starts the next rung that has tasks.
func (p *policy) nextRung() {
	for len(p.rungs) > 0 && len(p.queue) == 0 {
		p.queue, p.rungs = p.rungs[0], p.rungs[1:]
		p.rung++
		p.rungFails, p.rungDone = 0, 0
		if p.rung < p.total && len(p.queue) > 0 {
			p.recorder.note("info", fmt.Sprintf("rung %d of %d: a sample of %d cases", p.rung, p.total, len(p.queue)))
		}
	}
}

// trim removes tasks from the head of the queue that cannot be handed out now. Tasks of tripped groups
// are skipped; tasks of groups without room wait.
func (p *policy) trim() {
	p.shared.apply(p)
	for len(p.queue) > 0 {
		task := p.queue[0]
		name := p.job.group(task)
		g := p.groups[name]
		switch {
		case g.tripped != "":
			p.skip(task, "tripped", g.tripped)
		case p.room(g) == 0:
			p.held[name] = append(p.held[name], task)
		default:
			return
		}

		p.queue = p.queue[1:]
	}
}

// room returns how many more cases of a group may be handed out. Workers queue many cases, so a group
// that was never measured gets no more than the breaker allows to fail.
func (p *policy) room(g *group) int {
	if p.limits.tripAfter == 0 || g.measured > 0 {
		return math.MaxInt
	}
	return max(0, max(1, p.limits.tripAfter-g.earlier-g.failures)-g.out)
}

// endRung judges the finished rung and starts the next one, or stops the ramp.
func (p *policy) endRung() {
	if why := p.rungProblem(); why != "" {
		p.stopped = fmt.Sprintf("rung %d of %d did not pass: %s", p.rung, p.total, why)
		p.recorder.note("error", "ramp: "+p.stopped)
		for _, rung := range p.rungs {
			for _, t := range rung {
				p.skip(t, "ramp", p.stopped)
			}
		}
		p.rungs = nil
		return
	}

	p.nextRung()
	p.trim()
}

// rungProblem returns why the finished rung fails, or "" if it passes.
func (p *policy) rungProblem() string {
	if p.rungDone == 0 {
		return ""
	}

	if share := float64(p.rungFails) / float64(p.rungDone); share > p.limits.rampShare {
		return fmt.Sprintf("%d of %d cases failed, more than the %.0f %% that are allowed", p.rungFails,
			p.rungDone, 100*p.limits.rampShare)
	}

	if p.limits.rampGroup == 0 {
		return ""
	}

	var names []string
	for name, g := range p.groups {
		if g.measured == 0 && g.failures >= p.limits.rampGroup {
			names = append(names, name)
		}
	}

	if len(names) == 0 {
		return ""
	}

	slices.Sort(names)
	g := p.groups[names[0]]
	return fmt.Sprintf("all %d cases of %s failed; the last time: %s", g.failures, groupText(names[0]), g.last)
}
