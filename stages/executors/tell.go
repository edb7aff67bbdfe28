package executors

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// retell is how often it is said again how many tasks run.
const retell = 30 * time.Second

// tell shows how many tasks run and wait, when that has changed.
func (f *Follower) tell(running int, reasons map[string]int) {
	var parts []string
	if running > 0 {
		parts = append(parts, fmt.Sprintf("%d running", running))
	}
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%d waiting (%s)", reasons[r], reasonText(r)))
	}
	text := strings.Join(parts, ", ")
	if text != "" && (text != f.waiting || time.Since(f.waitingTold) > retell) {
		f.waiting, f.waitingTold = text, time.Now()
		f.Work.Waiting("tasks: " + text)
	}
}

// reasonText explains the usual reasons for waiting.
func reasonText(reason string) string {
	switch reason {
	case "Priority":
		return "Priority: others are first"
	case "Resources":
		return "Resources: nodes are in use"
	case "JobArrayTaskLimit":
		return "JobArrayTaskLimit: parallel says how many"
	case "Dependency":
		return "Dependency: the samples of the ramp are first"
	case "BeginTime":
		return "BeginTime: after a restart Slurm waits a moment"
	case "JobHeldUser":
		return "JobHeldUser: it is held; scontrol release lets it start"
	case "ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:":
		return reason + ": nodes that it needs are down or reserved"
	case "Reservation":
		return "Reservation: its reservation has not begun"
	case "PartitionDown", "PartitionInactive":
		return reason + ": the partition starts no jobs now"
	case "Licenses":
		return "Licenses: all are in use"
	case "QOSMaxJobsPerUserLimit", "QOSGrpNodeLimit", "QOSGrpGRES", "QOSMaxGRESPerUser", "QOSMaxNodePerUserLimit", "AssocMaxJobsLimit", "AssocGrpNodeLimit", "AssocGrpGRES":
		return reason + ": other jobs of yours or of the account use up what it allows"
	case "", "None":
		return "not looked at yet"
	}
	return reason
}

// told are shards by what there is to say of them.
type told map[string][]int

func (t told) add(why string, shard int) { t[why] = append(t[why], shard) }

func (t told) each(do func(why string, shards []int)) {
	for _, why := range slices.Sorted(maps.Keys(t)) {
		do(why, t[why])
	}
}

// taskNumbers names tasks: "task 3", "tasks 0-2,7".
func taskNumbers(shards []int) string {
	if len(shards) == 1 {
		return "task " + ranges(shards)
	}
	return "tasks " + ranges(shards)
}

func areTasks(shards []int) string {
	if len(shards) == 1 {
		return taskNumbers(shards) + " is"
	}
	return taskNumbers(shards) + " are"
}
