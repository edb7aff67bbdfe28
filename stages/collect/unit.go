package collect

// A unit is one row of the planned table: a case, or one point of a case that sweeps.
type unit struct {
	why   *why  // shared by units; nil if there is no reason
	task  int32 // index into job.tasks
	point int32 // index into the sweep; 0 without one
	state state
}

// why is the reason for a skip and the reason why a unit has no kernel.
type why struct {
	class    string // of a skip: tripped, ramp, not_selected, interrupted, unsupported_config
	reason   string // of a skip
	noKernel string // reason for no kernel on the plan's device, or ""
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

func (u *unit) noKernel() string {
	if u.why == nil {
		return ""
	}
	return u.why.noKernel
}

// shared returns the one copy of w, or nil if w is empty.
func (j *job) shared(w why) *why {
	if w == (why{}) {
		return nil
	}
	if p := j.whys[w]; p != nil {
		return p
	}
	p := new(why) // taking the address of w would allocate in each call
	*p = w
	j.whys[w] = p
	return p
}

// skip ends a unit that is not tried.
func (j *job) skip(u *unit, class, reason string) {
	u.state = skipped
	if u.why == nil || u.why.class != class || u.why.reason != reason {
		u.why = j.shared(why{class, reason, u.noKernel()})
	}
}

// settle sets the state of a unit and removes the reason of a skip.
func (j *job) settle(u *unit, s state) {
	u.state, u.why = s, j.shared(why{noKernel: u.noKernel()})
}
