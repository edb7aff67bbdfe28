package worker

// Marked lists the processes whose marker names an engine with this process
// number: workers and what they started.
func Marked(engine int) []int {
	var out []int
	for _, pid := range allPids() {
		if m := markerOf(pid); m != "" && markerEngine(m) == engine {
			if _, fields, ok := procStat(pid); ok && fields[0] != "Z" {
				out = append(out, pid)
			}
		}
	}
	return out
}

// ReapOrphansOf ends the orphans of a process namespace.
var ReapOrphansOf = reapOrphans

// StartTime is when a process started.
var StartTime = startTime
