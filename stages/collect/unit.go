package collect

// A unit is what one row of the planned table is: a case, or one point of a
// case that sweeps.
type unit struct {
	why       *why  // shared by units; nil where there is nothing to say
	failure   int32 // of failed units: in job.failures, from 1
	task      int32 // in job.tasks
	point     int32 // of the sweep; 0 without one
	row, rows int32 // of measured units: their rows in job.rows
	state     state
}

// why says why a unit was skipped, and why it has no kernel.
type why struct {
	class  string // of a skip: tripped, ramp, not_selected, interrupted, unsupported_config
	reason string // of a skip: why
	barred string // why it has no kernel on the plan's device; "" when it has
}

func (u *unit) class() string {
	if u.why == nil {
		return ""
	}
	return u.why.class
}

func (u *unit) reason() string {
	if u.why == nil {
		return ""
	}
	return u.why.reason
}

func (u *unit) barred() string {
	if u.why == nil {
		return ""
	}
	return u.why.barred
}

// shared is the one copy of w; nil when it is empty.
func (j *job) shared(w why) *why {
	if w == (why{}) {
		return nil
	}
	if p := j.whys[w]; p != nil {
		return p
	}
	p := new(why) // w itself would be allocated in each call
	*p = w
	j.whys[w] = p
	return p
}

// skip ends a unit that is not tried.
func (j *job) skip(u *unit, class, reason string) {
	u.state = skipped
	if u.why == nil || u.why.class != class || u.why.reason != reason {
		u.why = j.shared(why{class, reason, u.barred()})
	}
}

// settle takes back a skip.
func (j *job) settle(u *unit, s state) {
	u.state, u.why = s, j.shared(why{barred: u.barred()})
}
