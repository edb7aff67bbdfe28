package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"time"

	"aicplan/engine/plan"
	"aicplan/sink/base/textutil"
)

// errDeclined is returned if the user declines an apply.
var errDeclined = errors.New("nothing was measured, because the answer was not yes; --auto-approve asks nothing")

// approve shows a plan that is estimated to take longer than after and requests confirmation. It returns
// errDeclined if the answer is not yes.
func (a *app) approve(sum plan.Summary, after time.Duration) error {
	if sum.Totals.Seconds <= after.Seconds() {
		return nil
	}
	a.viewSummary(sum, false)
	fmt.Fprintf(a.stdout, "\nMeasuring is estimated to take %s. Go on? Only yes is taken: ",
		textutil.Duration(sum.Totals.Seconds))

	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stdout)
	}

	if strings.TrimSpace(answer) != "yes" {
		return errDeclined
	}

	return nil
}
