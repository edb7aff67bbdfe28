package stage

// Role is what those who read about a finished stage need to know of its kind:
// reports and views tell stages apart by it and not by the kind's name. Events
// carry it, so that it is there without the kind. The fields mean what those of
// Kind mean.
type Role struct {
	Guard    bool `json:"guard,omitempty"`
	Quiet    bool `json:"quiet,omitempty"`
	Measures bool `json:"measures,omitempty"`
	Judges   bool `json:"judges,omitempty"`
	Tabular  bool `json:"tabular,omitempty"`
	Verifies bool `json:"verifies,omitempty"`
	Follows  bool `json:"follows,omitempty"`
	Always   bool `json:"always,omitempty"`
}

// Role is the role of the kind's stages.
func (k Kind) Role() Role {
	return Role{Guard: k.Guard, Quiet: k.Quiet, Measures: k.Measures, Judges: k.Judges, Tabular: k.Tabular, Verifies: k.Verifies, Follows: k.Follows, Always: k.Always}
}

// CanStop says whether what the stage finds in data may stop it: the stage has a
// table that it did not measure itself.
func (r Role) CanStop() bool { return r.Tabular && !r.Measures }
