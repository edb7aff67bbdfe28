package proc

// Session returns the running processes of a session.
func Session(id int) []int {
	var out []int
	for _, p := range processes() {
		if p.session == id {
			out = append(out, p.pid)
		}
	}
	return out
}

// KillOrphansOf is KillOrphans for another machine or process namespace.
var KillOrphansOf = killOrphans

// Starter returns the first part of the marks of trees that a process starts.
var Starter = starter
