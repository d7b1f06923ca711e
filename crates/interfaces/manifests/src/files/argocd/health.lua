-- Health of a VirtPlatformConfig for Argo CD.
local hs = { status = "Progressing", message = "The operator has not reported yet" }
local status = obj.status
if status == nil or status.phase == nil then
  return hs
end
if obj.metadata.generation ~= nil and status.observedGeneration ~= obj.metadata.generation then
  hs.message = "The specification was changed and is not reconciled yet"
  return hs
end
local health = {
  Pending = "Progressing",
  Drafting = "Progressing",
  InProgress = "Progressing",
  ReviewRequired = "Suspended",
  Completed = "Healthy",
  CompletedWithUpgrade = "Healthy",
  Ignored = "Healthy",
  CompletedWithErrors = "Degraded",
  Drifted = "Degraded",
  Failed = "Degraded",
  PrerequisiteFailed = "Degraded",
}
hs.status = health[status.phase] or "Unknown"
hs.message = status.phase
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == status.phase and condition.message ~= nil and condition.message ~= "" then
    hs.message = status.phase .. ": " .. condition.message
  end
end
return hs
