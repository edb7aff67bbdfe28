package executors

import (
	"strings"
	"testing"
)

// TestWhyWaiting: what each reason means and how it ends, as squeue writes them.
func TestWhyWaiting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason string
		how    fate
		text   string
	}{
		{"None", passes, "not looked at yet"},
		{"Priority", passes, "others are first"},
		{"(Resources)", passes, "Resources: nodes are in use"},
		{"ReqNodeNotAvail, UnavailableNodes:n[0-3]", passes, "ReqNodeNotAvail, UnavailableNodes:n[0-3]: nodes that it needs are down"},
		{"ReqNodeNotAvail,_May_be_reserved_for_other_job", passes, "down, drained or reserved"},
		{"Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions", passes, "sinfo -R"},
		{"PartitionDown", passes, "starts no jobs now"},
		{"JobHeldUser", held, "it is held"},
		{"JobHeldAdmin", held, "an administrator holds it"},
		{"job requeued in held state", held, "requeued"},
		{"launch_failed_requeued_held", never, "could not be started"},
		{"BadConstraints", never, "no node has"},
		{"DependencyNeverSatisfied", never, "has failed"},
		{"QOSMaxWallDurationPerJobLimit", never, "does not allow a job so much: it limits the time"},
		{"QOSMaxGRESPerJob", never, "limits the GPUs"},
		{"QOSMaxCpuMinutesPerJobLimit", never, "limits the processor or GPU time"},
		{"AssocMaxNodePerJobLimit", never, "the account does not allow a job so much: it limits the nodes"},
		{"AssocMaxCpuPerNode", never, "limits the processors"},
		{"QOSMinCpuNotSatisfied", never, "wants jobs that ask for more: it limits the processors"},
		{"QOSMinGRES", never, "limits the GPUs"},
		{"AssocGrpCPUMinutesLimit", passes, "less time is left to the account"},
		{"QOSGrpWallLimit", passes, "less time is left to the quality of service"},
		{"AssocGrpCPURunMinutesLimit", passes, "all jobs of the account together use up the processor or GPU time"},
		{"AssocGrpGRES", passes, "use up the GPUs"},
		{"QOSGrpNodeLimit", passes, "all jobs of the quality of service together use up the nodes"},
		{"QOSMaxJobsPerUserLimit", passes, "other jobs of yours use up the running jobs"},
		{"AssocMaxJobsLimit", passes, "other jobs of yours use up the running jobs"},
		{"MaxGRESPerAccount", passes, "other jobs of yours use up the GPUs"},
		{"SomethingNew", passes, "SomethingNew"},
		{"MaxSomething", passes, "MaxSomething"},
	} {
		text, how := whyWaiting(tt.reason)
		if how != tt.how || !strings.Contains(text, tt.text) {
			t.Errorf("%s: %q, %d; want %q, %d", tt.reason, text, how, tt.text, tt.how)
		}
	}
}
