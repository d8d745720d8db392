/* SPDX-License-Identifier: MIT */
/* Whose code frames are, by object, mangled and demangled names; and names cut to what counts. */
#include "stats/code_layers.h"

#include <string.h>

#include "tests/unit/cmocka_all.h"

CM_TEST(names_lose_what_does_not_name_them)
{
	static const struct {
		const char *function, *plain;
	} cases[] = {
		{"main", "main"},
		{"", ""},
		{"grow(int)", "grow"},
		{"Model::forward(float const*) const", "Model::forward"},
		{"void thrust::sort<int*>(int*, int*)", "thrust::sort"},
		{"std::vector<int, std::allocator<int> >::push_back(int&&)",
		 "std::vector::push_back"},
		{"(anonymous namespace)::fill(int)", "(anonymous namespace)::fill"},
		{"main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()"},
		{"run(int)::step(float)", "run::step"},
		{"operator new(unsigned long)", "operator new"},
		{"bool ns::operator< <int>(ns::A<int> const&)", "ns::operator<"},
		{"ns::operator<<(std::ostream&, int)", "ns::operator<<"},
		{"A::operator bool() const", "A::operator bool"},
		{"decltype(f()) twice<int>(int)", "twice"},
		{"grow(int) [clone .constprop.0]", "grow"},
		{"make[abi:cxx11](int)", "make"},
		{"libfoo.so+0x2b40", "libfoo.so+0x2b40"},
		{"operators(int)", "operators"},
		/* Brackets without a partner: it stays as it is. */
		{"broken<int(", "broken<int("},
		{"int ", "int "},
	};
	char plain[CM_LAYER_NAME_BYTES];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cm_layer_short_name(plain, sizeof(plain), cases[i].function);
		assert_string_equal(plain, cases[i].plain);
	}
}

CM_TEST(long_names_are_cut_at_the_end_of_the_room)
{
	char plain[5] = "zzzz";

	cm_layer_short_name(plain, sizeof(plain), "forward(int)");
	assert_string_equal(plain, "forw");
	cm_layer_short_name(plain, 1, "forward(int)");
	assert_string_equal(plain, "");
}

CM_TEST(native_frames_belong_to_their_layers)
{
	static const struct {
		const char *object, *function;
		enum cm_layer layer;
		const char *name;
	} cases[] = {
		{"solver", "main", CM_LAYER_PROGRAM, NULL},
		{"solver", "", CM_LAYER_PROGRAM, NULL},
		{"", "0x7f00", CM_LAYER_PROGRAM, NULL},
		{"libcudart.so.13", "", CM_LAYER_PLUMBING, "libcudart"},
		{"libcurl.so.4", "curl_easy_perform", CM_LAYER_PROGRAM, NULL},
		{"libcublas.so.12", "cublasCreate_v2", CM_LAYER_LIBRARY, "libcublas"},
		{"solver", "cudaMalloc", CM_LAYER_PLUMBING, "cuda"},
		{"solver", "void thrust::sort<int*>(int*)", CM_LAYER_LIBRARY, "thrust"},
		{"solver", "_ZN6thrust4sortEv", CM_LAYER_LIBRARY, "thrust"},
		{"solver", "_ZNK3cub4sortEv", CM_LAYER_LIBRARY, "cub"},
		{"solver", "_ZN5thrus4sortEv", CM_LAYER_PROGRAM, NULL},
		{"solver", "_ZN6thrusX4sortEv", CM_LAYER_PROGRAM, NULL},
		{"solver", "_ZNSt6vectorIiE9push_backEv", CM_LAYER_PLUMBING, "std"},
		{"solver", "thrusting(int)", CM_LAYER_PROGRAM, NULL},
		{"solver", "int* std::copy<int>(int*)", CM_LAYER_PLUMBING, "std"},
		{"solver", "_Znwm", CM_LAYER_PLUMBING, "_Znw"},
		{"solver", "_Z", CM_LAYER_PROGRAM, NULL},
		{"solver", "_ZN", CM_LAYER_PROGRAM, NULL},
		{"python3.11", "", CM_LAYER_PLUMBING, "python3"},
		{"/usr/bin/python3.11", "", CM_LAYER_PLUMBING, "python3"},
		{"/v/site-packages/cupy/cuda/memory.cpython-311-x86_64-linux-gnu.so",
		 "__pyx_f_4cupy_4cuda_6memory__malloc", CM_LAYER_LIBRARY, "cupy"},
		{"/v/site-packages/cupy_backends/cuda/api/runtime.so", "", CM_LAYER_LIBRARY,
		 "cupy"},
		{"/v/site-packages/mine/fast.so", "__Pyx_PyObject_Call", CM_LAYER_PLUMBING,
		 "__Pyx_"},
		{"/v/site-packages/mine/fast.so", "__pyx_pw_4mine_1run", CM_LAYER_PROGRAM, NULL},
		{"/usr/lib/python3.11/lib-dynload/_struct.so", "s_pack", CM_LAYER_PLUMBING,
		 "python"},
		{"/v/lib/python3.11/site-packages/mine/fast.so", "grow", CM_LAYER_PROGRAM, NULL},
		{"/v/site-packages/torch/lib/libtorch_cuda.so", "", CM_LAYER_LIBRARY, "libtorch"},
	};
	const char *name;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(cm_layer_native(cases[i].object, cases[i].function, &name),
				 cases[i].layer);
		assert_true(!name == !cases[i].name);
		if (name)
			assert_string_equal(name, cases[i].name);
	}
	assert_int_equal(cm_layer_native("ld-linux-x86-64.so.2", "", NULL), CM_LAYER_PLUMBING);
}

CM_TEST(python_frames_belong_to_their_layers)
{
	const char *name;

	assert_int_equal(cm_layer_python("/src/train.py", &name), CM_LAYER_PROGRAM);
	assert_null(name);
	assert_int_equal(
		cm_layer_python("/v/lib/python3.12/site-packages/cupy/cuda/memory.py", &name),
		CM_LAYER_LIBRARY);
	assert_string_equal(name, "cupy");
	/* A package that nobody knows is the program's. */
	assert_int_equal(cm_layer_python("/v/lib/python3.12/site-packages/mine/a.py", NULL),
			 CM_LAYER_PROGRAM);
	assert_int_equal(cm_layer_python("/usr/lib/python3.11/ctypes/__init__.py", &name),
			 CM_LAYER_PLUMBING);
	assert_string_equal(name, "python");
	assert_int_equal(cm_layer_python("<frozen importlib._bootstrap>", NULL), CM_LAYER_PLUMBING);
	assert_int_equal(cm_layer_python("<__array_function__ internals>", &name),
			 CM_LAYER_PLUMBING);
	assert_string_equal(name, "numpy");
	/* What is typed or executed is the program's: python3 -c, a shell, a notebook. */
	assert_int_equal(cm_layer_python("<string>", &name), CM_LAYER_PROGRAM);
	assert_null(name);
	assert_int_equal(cm_layer_python("<stdin>", NULL), CM_LAYER_PROGRAM);
	assert_int_equal(cm_layer_python("<ipython-input-3-0d1b>", NULL), CM_LAYER_PROGRAM);
}
