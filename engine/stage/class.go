package stage

// Class says what the stages of a kind do in a plan. The engine, reports and
// views tell stages apart by it and not by the name of the kind. Events carry
// it, so that readers of events need no kind.
type Class string

// The classes, in the order in which most plans use them.
const (
	// Guard checks whether other stages may run (preflight). It runs whenever a
	// stage that depends on it runs, has no data, and is never reused.
	Guard Class = "guard"
	// Source has its data when the plan is made (grid, import). It is planned even
	// if its record is current, because other stages use its plan.
	Source Class = "source"
	// Measure works through cases on devices (collect).
	Measure Class = "measure"
	// Transform makes a table of other tables (dedupe).
	Transform Class = "transform"
	// Check passes its input on if the checks allow it (gate).
	Check Class = "check"
	// Verify passes its input on after it measured a sample again (verify).
	Verify Class = "verify"
	// Sink writes files into the output folder and passes its input on (export).
	Sink Class = "sink"
	// Report describes all stages before it, also those that failed; its inputs may
	// then be nil. It runs again whenever one of them ran.
	Report Class = "report"
	// Publish hands on what the stages before it wrote. Like a report, it runs again
	// whenever one of them ran.
	Publish Class = "publish"
)

// OwnsDevices reports whether the stage owns devices while it runs. Only one
// such stage runs at a time; the others may run at the same time.
func (c Class) OwnsDevices() bool { return c == Measure || c == Verify }

// HasTable reports whether other stages may read the stage as a dataset.
func (c Class) HasTable() bool { return c != Guard && c != Report && c != Publish }

// Follows reports whether the stage depends on the outcomes of all stages
// before it and not only on the tables it reads.
func (c Class) Follows() bool { return c == Report || c == Publish }

// Writes reports whether the stage writes files into the output folder.
func (c Class) Writes() bool { return c == Sink || c == Report }

// Judges reports whether a report must show the checks of the stage even if all
// of them pass.
func (c Class) Judges() bool { return c == Check || c == Verify }

// CanStop reports whether checks of the stage can stop data that it did not
// measure itself.
func (c Class) CanStop() bool { return c == Source || c == Transform || c.Judges() }

// Measurements reports whether the stage's data is a table of measurements that
// a report may show.
func (c Class) Measurements() bool { return c == Measure || c.CanStop() }
