package stage

// Class is the role of a kind's stages in a plan. The engine, reports and views distinguish stages by their class
// and not by the name of the kind. Events contain it, so that readers of events need no kind.
type Class string

// The classes, in the order in which most plans use them.
const (
	// Guard checks whether other stages may run (preflight). It runs if a stage that depends on it runs, has no
	// data, and is never reused.
	Guard Class = "guard"
	// Source has its data when the plan is made (grid, import). It is planned even if its record is current,
	// because other stages use its plan.
	Source Class = "source"
	// Measure measures cases on devices (collect).
	Measure Class = "measure"
	// Transform makes a table from other tables (dedupe).
	Transform Class = "transform"
	// Check passes its input on if its checks allow it (gate).
	Check Class = "check"
	// Verify measures a sample of its input again and passes the input on (verify).
	Verify Class = "verify"
	// Sink writes files into the output folder and passes its input on (export).
	Sink Class = "sink"
	// Report describes all stages that it depends on, also failed ones; its inputs may then be nil. It runs again
	// if one of them has run.
	Report Class = "report"
	// Publish passes on the files of the stages that it depends on. Like a report, it runs again if one of them
	// has run.
	Publish Class = "publish"
)

// OwnsDevices reports whether the stage owns devices while it runs. Such stages run one at a time; other stages
// may run concurrently.
func (c Class) OwnsDevices() bool { return c == Measure || c == Verify }

// HasTable reports whether other stages may read the stage as a dataset.
func (c Class) HasTable() bool { return c != Guard && c != Report && c != Publish }

// Follows reports whether the stage depends on the results of all stages before it and not only on the tables that
// it reads.
func (c Class) Follows() bool { return c == Report || c == Publish }

// Writes reports whether the stage writes files into the output folder.
func (c Class) Writes() bool { return c == Sink || c == Report }

// Judges reports whether a report must show the checks of the stage even if all of them pass.
func (c Class) Judges() bool { return c == Check || c == Verify }

// CanStop reports whether checks of the stage can stop data that the stage has not measured itself.
func (c Class) CanStop() bool { return c == Source || c == Transform || c.Judges() }

// Measurements reports whether the stage's data is a table of measurements that
// a report may show.
func (c Class) Measurements() bool { return c == Measure || c.CanStop() }
