package executors

import (
	"regexp"
	"strings"
)

// fate is how a reason for waiting ends.
type fate int

const (
	passes fate = iota // by itself, or when the cluster is in order again
	held               // when somebody releases the job
	never              // only another request can start
)

// known are Slurm's reasons for waiting that are not a limit of an account or of
// a quality of service.
var known = map[string]struct {
	fate fate
	text string
}{
	"Priority":                        {passes, "others are first"},
	"Resources":                       {passes, "nodes are in use"},
	"JobArrayTaskLimit":               {passes, "parallel says how many"},
	"Dependency":                      {passes, "the samples of the ramp are first"},
	"BeginTime":                       {passes, "its time has not come; after a restart Slurm waits a moment"},
	"Licenses":                        {passes, "all are in use"},
	"Reservation":                     {passes, "its reservation has not begun"},
	suspended:                         {passes, "it was stopped in favour of another job, or by an administrator, and is to go on"},
	"Cleaning":                        {passes, "Slurm tidies up after its last try"},
	"Prolog":                          {passes, "the cluster's prolog runs"},
	"ReqNodeNotAvail":                 {passes, "nodes that it needs are down, drained or reserved; scontrol show reservation says for how long"},
	"Nodes required for job are DOWN": {passes, "nodes that it needs are down, drained or reserved; sinfo -R says why"},
	"NodeDown":                        {passes, "a node that it needs is down; sinfo -R says why"},
	"FrontEndDown":                    {passes, "the cluster's front end is down"},
	"PartitionDown":                   {passes, "the partition starts no jobs now, as before maintenance"},
	"PartitionInactive":               {passes, "the partition takes and starts no jobs now, as before maintenance"},
	"QOSUsageThreshold":               {passes, "the account has used too much for this quality of service"},
	"SystemFailure":                   {passes, "Slurm, a file system or a network has failed"},

	"JobHeldUser":                {held, "it is held"},
	"JobHeldAdmin":               {held, "an administrator holds it"},
	"job requeued in held state": {held, "it was requeued and is held"},

	"PartitionNodeLimit":                      {never, "the partition does not have so many nodes, or lends them to nobody: ask for fewer, or name another partition"},
	"PartitionTimeLimit":                      {never, "the partition's time limit is shorter than time"},
	"PartitionConfig":                         {never, "time, nodes or memory are beyond what the partition allows; scontrol show partition has its limits"},
	"BadConstraints":                          {never, "no node has what constraint and the other options ask for"},
	"DependencyNeverSatisfied":                {never, "the task that it waits for has failed"},
	"DeadLine":                                {never, "it cannot end before its deadline"},
	"InvalidAccount":                          {never, "the account is not known or not allowed there"},
	"AccountNotAllowed":                       {never, "the account is not allowed in the partition"},
	"InvalidQOS":                              {never, "the quality of service is not known or not allowed there"},
	"QOSNotAllowed":                           {never, "the quality of service is not allowed in the partition"},
	"ReservationDeleted":                      {never, "its reservation is gone"},
	"MaxMemPerLimit":                          {never, "memory is more than a node or a processor may have"},
	"JobLaunchFailure":                        {never, "it could not be started"},
	"JobHoldMaxRequeue":                       {never, "it was started again too often"},
	"launch failed requeued held":             {never, "it could not be started and is held; scontrol release lets it try again"},
	"user env retrieval failed requeued held": {never, "the user's environment could not be read on the node, and it is held"},
}

// Limits of accounts and qualities of service have names such as
// QOSMaxGRESPerUser: whose, over what, of what, for whom.
var (
	perJob  = regexp.MustCompile(`^(QOS|Assoc)(Max(.+)Per(?:Job|Node)|Min(.+?))(?:Limit|NotSatisfied)?$`)
	budget  = regexp.MustCompile(`^(QOS|Assoc)Grp(.*)(Minutes|Wall)(?:Limit)?$`)
	grouped = regexp.MustCompile(`^(QOS|Assoc)Grp(.+?)(?:Limit)?$`)
	perUser = regexp.MustCompile(`^(QOS|Assoc)?Max(.+?)(?:PerUser|PerAccount)?(?:Limit)?$`)
)

// nouns are what limits count.
var nouns = []struct{ part, noun string }{
	{"Wall", "time"}, {"Minutes", "processor or GPU time"}, {"Cpu", "processors"}, {"CPU", "processors"}, {"Node", "nodes"}, {"GRES", "GPUs"}, {"Mem", "memory"},
	{"Submit", "jobs in the queue"}, {"Jobs", "running jobs"}, {"License", "licenses"},
}

func nounOf(limit string) string {
	for _, n := range nouns {
		if strings.Contains(limit, n.part) {
			return n.noun
		}
	}
	return limit
}

func owner(prefix string) string {
	if prefix == "QOS" {
		return "the quality of service"
	}
	return "the account"
}

// whyWaiting explains what squeue says of a job that waits, and how that ends.
func whyWaiting(reason string) (text string, how fate) {
	reason = strings.TrimSpace(strings.Trim(strings.TrimSpace(reason), "()"))
	if reason == "" || reason == "None" {
		return "not looked at yet", passes
	}
	name, _, _ := strings.Cut(reason, ",")
	name = strings.TrimSpace(name)
	k, ok := known[name]
	if !ok {
		k, ok = known[strings.ReplaceAll(name, "_", " ")]
	}
	if ok {
		return reason + ": " + k.text, k.fate
	}
	if m := perJob.FindStringSubmatch(name); m != nil {
		if m[4] != "" {
			return reason + ": " + owner(m[1]) + " wants jobs that ask for more: it limits the " + nounOf(m[4]), never
		}
		return reason + ": " + owner(m[1]) + " does not allow a job so much: it limits the " + nounOf(m[3]), never
	}
	if m := budget.FindStringSubmatch(name); m != nil && !strings.HasSuffix(m[2], "Run") {
		return reason + ": less time is left to " + owner(m[1]) + " than time asks for; a shorter time, or another account, may start at once", passes
	}
	if m := grouped.FindStringSubmatch(name); m != nil {
		return reason + ": all jobs of " + owner(m[1]) + " together use up the " + nounOf(m[2]) + " that it allows", passes
	}
	if m := perUser.FindStringSubmatch(name); m != nil && (m[1] != "" || strings.HasSuffix(name, "PerAccount")) {
		return reason + ": other jobs of yours use up the " + nounOf(m[2]) + " that you may have", passes
	}
	return reason, passes
}
