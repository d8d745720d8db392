/* SPDX-License-Identifier: MIT */
/* Container, pod and job of a process, by the paths that runtimes give its control groups. */
#include "tools/processes/identity.h"

#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "1b4e28ba-2fa1-11d2-883f-0016d3cca427"

static const struct {
	const char *cgroup, *container_id, *pod_uid, *slurm_job_id;
} paths[] = {
	{"", "", "", ""},
	{"0::/\n", "", "", ""},
	{"0::/user.slice/user-1000.slice/session-2.scope\n", "", "", ""},
	/* containerd and CRI-O, cgroupfs and systemd, version 2 */
	{"0::/kubepods/burstable/pod" UID "/" ID "\n", ID, UID, ""},
	{"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-"
	 "pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice/cri-containerd-" ID ".scope\n",
	 ID, UID, ""},
	{"0::/kubepods.slice/kubepods-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice/crio-" ID
	 ".scope/container\n",
	 ID, UID, ""},
	/* a static pod's uid is a hash; kind, where the node is a container; another's namespace */
	{"0::/kubepods/pod0123456789abcdef0123456789abcdef/" ID "\n", ID,
	 "0123456789abcdef0123456789abcdef", ""},
	{"0::/docker/" ID "/kubelet/kubepods/pod" UID "/" ID "\n", ID, UID, ""},
	{"0::/../../kubepods/burstable/pod" UID "/" ID, ID, UID, ""},
	/* docker and podman, version 1 */
	{"12:memory:/docker/" ID "\n11:cpu,cpuacct:/docker/" ID "\n1:name=systemd:/\n", ID, "", ""},
	{"0::/system.slice/docker-" ID ".scope\n", ID, "", ""},
	{"0::/machine.slice/libpod-" ID ".scope/container\n", ID, "", ""},
	/* Slurm, versions 1 and 2, and a container inside a job */
	{"4:memory:/slurm/uid_1000/job_77/step_0/task_0\n", "", "", "77"},
	{"0::/system.slice/slurmstepd.scope/job_123456/step_batch/user/task_0\n", "", "", "123456"},
	{"0::/system.slice/node1_slurmstepd.scope/job_5/step_0/user/libpod-" ID "\n", ID, "", "5"},
	/* none of these */
	{"0::/job_77/step_0\n", "", "", ""},
	{"0::/slurm/job_\n", "", "", ""},
	{"0::/slurm/job_123456789012345678901\n", "", "", ""},
	{"0::/docker/" ID "0\n", "", "", ""},
	{"0::/kubepods/pod1b4e28ba-2fa1-11d2-883f-0016d3cca42\n", "", "", ""},
	{"0::/kubepods/pod1B4E28BA-2FA1-11D2-883F-0016D3CCA427\n", "", "", ""},
	{"0::/pod", "", "", ""},
};

CM_TEST(paths_say_who_it_is)
{
	struct cm_identity identity;
	size_t i;

	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		cm_identity_parse(paths[i].cgroup, &identity);
		assert_string_equal(identity.container_id, paths[i].container_id);
		assert_string_equal(identity.pod_uid, paths[i].pod_uid);
		assert_string_equal(identity.slurm_job_id, paths[i].slurm_job_id);
	}
}

CM_TEST(a_process_runs_as_its_own_user)
{
	struct cm_identity identity;

	assert_true(cm_identity_is_user(getpid(), geteuid()));
	assert_false(cm_identity_is_user(getpid(), geteuid() + 12345));
	/* Of one that is not there nothing can be told. */
	assert_true(cm_identity_is_user(INT32_MAX, 12345));
	cm_identity_read(INT32_MAX, &identity);
	assert_string_equal(identity.slurm_job_id, "");
}
