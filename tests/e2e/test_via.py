# test_via.py -- a report names what the program called: the runtime's function, beside the driver's below it.
# SPDX-License-Identifier: Apache-2.0
import pytest

import compiled
import guarded
import steps
import test_sim_runtime

# The runtime's function, and the driver's export that it ends in.
CALLS = {
    "cudaMalloc": "cuMemAlloc_v2",
    "cudaMallocPitch": "cuMemAllocPitch_v2",
    "cudaMalloc3D": "cuMemAllocPitch_v2",
    "cudaMallocManaged": "cuMemAllocManaged",
    "cudaMallocHost": "cuMemHostAlloc",
    "cudaHostAlloc": "cuMemHostAlloc",
    "cudaHostRegister": "cuMemHostRegister_v2",
    "cudaMallocAsync": "cuMemAllocAsync",
    "cudaMallocFromPoolAsync": "cuMemAllocFromPoolAsync",
    "cudaMallocArray": "cuArrayCreate_v2",
    "cudaMalloc3DArray": "cuArray3DCreate_v2",
    "cudaMallocMipmappedArray": "cuMipmappedArrayCreate",
    "cudaIpcOpenMemHandle": "cuIpcOpenMemHandle_v2",
    "cudaImportExternalMemory": "cuImportExternalMemory",
    "cudaMemPoolCreate": "cuMemPoolCreate",
    "cudaStreamCreate": "cuStreamCreate",
    "cudaStreamCreateWithFlags": "cuStreamCreate",
    "cudaStreamCreateWithPriority": "cuStreamCreateWithPriority",
    "cudaEventCreate": "cuEventCreate",
    "cudaEventCreateWithFlags": "cuEventCreate",
}
PER_THREAD = {"cudaMallocAsync": "cuMemAllocAsync_ptsz", "cudaMallocFromPoolAsync": "cuMemAllocFromPoolAsync_ptsz"}


def failure(directory, way, api, export):
    """The failure that the report of a planned refusal of the export tells."""
    flags, libraries = test_sim_runtime.WAYS[way]
    program = compiled.build("case_via", *flags, libraries=libraries)
    done = guarded.run([program, api], directory, VGSIM_FAIL=f"{export.replace('_ptsz', '')}:1:2")
    assert (done.stdout, done.returncode) == (f"{api} 2\n", 0), done.stderr
    [report] = guarded.written(directory, "oom")
    return report["failure"]


@pytest.mark.parametrize("api", CALLS)
def test_a_failure_says_what_the_program_called(api, tmp_path):
    told = failure(tmp_path, "13", api, CALLS[api])
    assert (told["api"], told["requested_via"]) == (CALLS[api], api)


@pytest.mark.parametrize("api", PER_THREAD)
def test_per_thread_default_stream(api, tmp_path):
    told = failure(tmp_path, "per-thread-12", api, PER_THREAD[api])
    assert (told["api"], told["requested_via"]) == (PER_THREAD[api], api + "_ptsz")


def test_calls_of_a_static_runtime_are_named_by_the_driver(tmp_path):
    told = failure(tmp_path, "static", "cudaMallocPitch", "cuMemAllocPitch_v2")
    assert (told["api"], told["requested_via"]) == ("cuMemAllocPitch_v2", "cuMemAllocPitch_v2")


def test_every_site_has_the_name_of_the_runtime(tmp_path):
    program = compiled.build("case_runtime_kinds", libraries=(compiled.RUNTIME,))
    walked = steps.walk([program, "plain"], tmp_path)
    sites = walked.report["made"]["sites"]
    named = {(site["kind"], site["api"]) for site in sites}
    assert named == {
        ("device", "cudaMalloc"), ("device", "cudaMallocPitch"), ("device", "cudaMalloc3D"), ("managed", "cudaMallocManaged"),
        ("pinned", "cudaMallocHost"), ("pinned", "cudaHostAlloc"), ("registered", "cudaHostRegister"), ("pool", "cudaMallocAsync"),
        ("pool", "cudaMallocFromPoolAsync"), ("array", "cudaMallocArray"), ("array", "cudaMalloc3DArray"),
        ("mipmap", "cudaMallocMipmappedArray"), ("graph", "cudaGraphAddMemAllocNode"), ("graph", "cudaMallocAsync")}
    assert all(site["live_count"] == 1 and site["library"].startswith("case_runtime_kinds") for site in sites)
